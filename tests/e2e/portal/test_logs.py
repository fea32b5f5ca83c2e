"""A log in the portal: any part of it, the search, a link to a line, and the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.portal.browsing import Visitor, expect
from tests.e2e.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.full]
LINES = 200_000


@pytest.fixture(scope="module")
def log(server: Server) -> Path:
    """Return the log of a task that printed many lines, each with its number."""
    assert server.submit("long-log", "true").is_success
    server.ended("long-log")
    task = server.get("/jobs/admin~long-log")["taskRoles"]["worker"]["taskStatuses"][0]
    path = server.data_dir / "data" / "logs" / task["containerId"] / "stdout.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        file.writelines(f"line {number} lösung\n" for number in range(LINES))
        file.write("the last line\n")
    return path


def test_any_line_is_reached_by_the_position_the_search_and_its_address(visitor: Visitor, log: Path) -> None:
    visitor.open("/jobs/admin~long-log?tab=logs", "long-log")
    page = visitor.page
    lines = page.get_by_role("log")
    lines.get_by_text("the last line").wait_for()
    position = page.get_by_label("Position in the log")
    position.fill("0")
    lines.get_by_text("line 0 lösung", exact=False).first.wait_for()
    position.fill("500")
    page.wait_for_url("**at=*")
    expect(lines.locator("[data-at]")).to_contain_text("line 1")
    page.get_by_label("Search the whole log").fill("LINE 77777 ")
    page.get_by_label("Search the whole log").press("Enter")
    expect(lines.locator("[data-at]")).to_contain_text("line 77777 lösung")
    assert visitor.examine() == []
    address = page.url
    page.goto("/jobs")
    page.goto(address)
    expect(lines.locator("[data-at]")).to_contain_text("line 77777 lösung")
    # What is beyond the loaded part comes as it is scrolled to.
    page.wait_for_function(
        """() => {
          const box = document.querySelector("[role=log]");
          box.scrollTop = box.scrollHeight;
          return Math.max(...[...box.innerText.matchAll(/line (\\d+)/g)].map(found => Number(found[1]))) > 100000;
        }"""
    )
    page.get_by_label("Follow").check()
    lines.get_by_text("the last line").wait_for()


def test_a_whole_log_is_saved(visitor: Visitor, log: Path) -> None:
    visitor.open("/jobs/admin~long-log?tab=logs", "long-log")
    with visitor.page.expect_download() as found:
        visitor.page.get_by_role("button", name="Download").click()
    assert found.value.path().read_bytes() == log.read_bytes()


def test_a_part_that_arrives_late_moves_nothing_that_is_followed(visitor: Visitor, log: Path) -> None:
    visitor.open("/jobs/admin~long-log?tab=logs", "long-log")
    page, parts = visitor.page, re.compile(r"offset=\d+&limit=")
    lines = page.get_by_role("log")
    lines.get_by_text("the last line").wait_for()
    page.get_by_label("Position in the log").fill("500")
    expect(lines.locator("[data-at]")).to_contain_text("line 1")
    held: list[Any] = []
    page.route(parts, lambda route: held.append(route))
    with page.expect_request(parts):
        lines.evaluate("box => { box.scrollTop = box.scrollHeight; }")
    page.get_by_label("Follow").check()
    lines.get_by_text("the last line").wait_for()
    with page.expect_response(parts) as answer:
        held[0].continue_()
    answer.value.finished()
    page.evaluate(
        "() => new Promise(resolve => setTimeout(() => requestAnimationFrame(() => setTimeout(resolve)), 300))"
    )
    assert lines.get_by_text("the last line").is_visible()
