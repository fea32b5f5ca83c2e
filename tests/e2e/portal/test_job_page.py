"""The page of a job: a terminal in a task, its attempts, and its file beside that of another job."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.portal.browsing import BUILT, WITHIN_MS, Visitor, expect
from tests.e2e.server import Server, until

pytestmark = [pytest.mark.slow, pytest.mark.full]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a platform whose tasks are processes."""
    if not (BUILT / "index.html").exists():
        pytest.skip("the portal is not built here: make portal")
    found = Server.start(tmp_path_factory.mktemp("processes"), 0, "--backend", "process")
    yield found
    found.end()


@pytest.fixture
def person(real: Server, browser: Any) -> Iterator[Visitor]:
    """Return an administrator at that platform."""
    found = Visitor(browser, real.url)
    found.log_in()
    yield found
    found.close()
    assert found.complaints == []


def test_a_terminal_runs_what_is_typed_and_ends_with_its_shell(real: Server, person: Visitor) -> None:
    real.submit("shelled", "sleep 1000")
    until(lambda: real.state("shelled") == "RUNNING", "it runs")
    person.open("/jobs/admin~shelled?tab=terminal", "shelled")
    page = person.page
    page.get_by_label("Terminal in worker-0").first.wait_for()
    keys = page.get_by_role("textbox", name="Terminal in worker-0")
    expect(keys).to_be_focused(timeout=WITHIN_MS)
    page.keyboard.type("echo $((6 * 7))-answer; stty size\n")
    screen = page.locator(".xterm-rows")
    expect(screen).to_contain_text("42-answer", timeout=WITHIN_MS)
    # Colours of any kind, which the library sets as style attributes, and makes darker for their contrast.
    page.keyboard.type("printf '\\033[38;2;255;100;0morange\\033[0m\\n'\n")
    expect(screen.get_by_text("orange", exact=True)).to_have_css("color", "rgb(185, 72, 0)", timeout=WITHIN_MS)
    assert person.examine() == []
    page.keyboard.press("Control+Shift+X")
    expect(keys).not_to_be_focused()
    keys.focus()
    page.keyboard.type("exit 3\n")
    page.get_by_text("The shell ended with exit code 3.").wait_for()
    page.get_by_role("button", name="Connect again").click()
    expect(page.get_by_role("textbox", name="Terminal in worker-0")).to_be_focused(timeout=WITHIN_MS)


def test_two_files_are_compared_line_by_line(visitor: Visitor, server: Server) -> None:
    server.submit("first-of-files", "sleep 1")
    server.submit("second-of-files", "sleep 2")
    visitor.open("/jobs/admin~first-of-files?tab=config", "first-of-files")
    page = visitor.page
    page.get_by_label("Compare with job").fill("admin~second-of-files")
    page.get_by_role("button", name="Compare", exact=True).click()
    differences = page.get_by_role("region", name="Differences")
    expect(differences.locator("[data-kind=own]").filter(has_text="sleep 1")).to_have_count(1)
    expect(differences.locator("[data-kind=other]").filter(has_text="sleep 2")).to_have_count(1)
    assert page.url.endswith("against=admin%7Esecond-of-files")
    assert visitor.examine() == []
    page.get_by_role("button", name="End the comparison").click()
    page.get_by_label("Compare with job").fill("admin~not-there")
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_text("Not found").wait_for()


def test_the_attempts_of_a_job_are_on_one_scale(real: Server, person: Visitor, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    script = f"if test -e {mark}; then sleep 1000; fi; touch {mark}; exit 1"
    real.submit("tried-again", script, jobRetryCount=1)
    until(mark.exists, "the first attempt ran")
    until(lambda: real.get("/jobs/admin~tried-again")["jobStatus"]["retries"] == 1, "it is tried again")
    person.open("/jobs/admin~tried-again?tab=attempts", "tried-again")
    page = person.page
    page.get_by_role("link", name="Attempt 2").wait_for()
    assert person.examine() == []
    page.get_by_role("link", name="Attempt 1").click()
    expect(page.get_by_label("Attempt", exact=True)).to_have_value("0")


def test_what_a_job_reports_is_drawn_beside_its_log(real: Server, person: Visitor) -> None:
    lines = 'i=0; while :; do i=$((i+1)); echo "$i/9000 loss=0.$i" > "$PAI_PROGRESS_FILE"; echo step $i; sleep 1; done'
    real.submit("trains", lines)
    charts = "/jobs/admin~trains/metrics?name=pai_job_progress_value"
    until(lambda: any(one["mean"] for one in real.get(charts)["charts"][0]["series"]), "its loss is measured")
    try:
        person.open("/jobs/admin~trains?tab=logs", "trains")
        progress = person.page.get_by_role("region", name="Progress", exact=True)
        progress.get_by_role("figure", name="loss").locator("canvas").wait_for()
        progress.get_by_role("figure", name="Progress in steps").locator("canvas").wait_for()
        person.page.get_by_role("log").get_by_text(re.compile(r"step \d+")).first.wait_for()
        assert person.examine() == []
        person.page.set_viewport_size({"width": 375, "height": 700})
        assert person.overflow() <= 0
    finally:
        real.http.put("/jobs/admin~trains/executionType", json={"value": "STOP"})
