"""A job is submitted and its logs are read by somebody who sees nothing and has no mouse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.portal.browsing import Visitor, expect
from tests.e2e.portal.screen_reader import ScreenReader
from tests.e2e.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.full]
FIND = "Find a job or a page"


@pytest.fixture
def reader(visitor: Visitor) -> ScreenReader:
    """Return an administrator who hears the portal."""
    return ScreenReader(visitor.page)


def test_a_job_is_submitted_by_keyboard_and_each_step_is_said(reader: ScreenReader, visitor: Visitor) -> None:
    page = visitor.page
    visitor.open("/", "Hello, admin")
    assert reader.press("Tab").startswith("Skip to the content, link")
    reader.press("Control+k")
    expect(page.get_by_role("combobox", name=FIND)).to_be_focused()
    assert reader.focused().startswith("Home, option, selected")
    page.keyboard.type("submit")
    expect(page.get_by_role("option")).to_have_count(1)
    assert reader.focused().startswith("Submit a job, option, selected")
    reader.press("Enter")
    reader.hear("Submit a job")
    page.get_by_label("Name", exact=True).wait_for()
    assert reader.tab_to("Name, textbox") == "Name, textbox, hello"
    reader.type("not a name!")
    assert "is not a name" in reader.hear("line 2") or "name" in reader.hear("line 2")
    reader.tab_to("Submit, button")
    reader.press("Enter")
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    spoken = reader.focused()
    assert spoken.startswith("Name, textbox, invalid, not a name!, "), spoken
    reader.type("by-ear")
    reader.hear("The server accepts this file")
    commands = reader.tab_to("Commands, textbox")
    assert "echo" in commands, commands
    reader.type("echo hello to the ear\nsleep 1000")
    reader.tab_to("Submit, button")
    # The editor says how it is left by keyboard.
    editor = reader.tab_to("Job file, textbox")
    assert "Escape, then Tab" in editor, editor
    assert not reader.press("Escape", "Tab").startswith("Job file")
    reader.tab_to("Submit, button", back=True)
    # Every letter that was typed is in the file, also those after a space.
    expect(page.get_by_label("Job file")).to_contain_text("echo hello to the ear")
    # What was accepted before and still is, is not said at each letter.
    expect(page.get_by_role("status").filter(has_text="The server accepts this file")).to_be_visible()
    assert len(reader.heard()) <= 4
    reader.press("Enter")
    reader.hear("by-ear")
    page.get_by_role("heading", name="by-ear", level=1).wait_for()
    expect(page.locator("main")).to_be_focused()
    expect(page.locator("h1")).to_contain_text("Running")


def test_the_log_of_a_job_is_read_by_keyboard_and_new_lines_on_request(
    reader: ScreenReader, visitor: Visitor, server: Server
) -> None:
    assert server.submit("heard", "echo first line", "echo second line", "sleep 1000").is_success
    page = visitor.page
    visitor.open("/jobs/admin~heard", "heard")
    expect(page.locator("h1")).to_contain_text("Running")
    assert reader.tab_to("Tasks, tab") == "Tasks, tab, selected"
    assert reader.press("ArrowRight") == "Logs, tab, selected"
    log = page.get_by_role("log", name="Log")
    expect(log).to_contain_text("second line")
    # What was there before is read on request only, line by line and without the marks beside it.
    assert "first line" not in " ".join(reader.heard())
    reader.tab_to("Task, combobox")
    reader.tab_to("Log, combobox")
    reader.tab_to("Search the whole log, textbox")
    assert reader.tab_to("Follow, checkbox") == "Follow, checkbox, checked"
    aloud = reader.tab_to("Read new lines aloud, checkbox")
    assert aloud == "Read new lines aloud, checkbox, checked false"
    assert reader.tab_to("Log, log") == "Log, log"
    lines = log.aria_snapshot()
    assert lines.index("first line") < lines.index("second line")
    assert "Link to" not in lines
    file = _log_of(server, "heard")
    with file.open("a") as log_file:
        log_file.write("nobody asked for this\n")
    expect(log).to_contain_text("nobody asked for this")
    reader.tab_to("Read new lines aloud, checkbox", back=True)
    assert reader.press("Space") == "Read new lines aloud, checkbox, checked"
    with file.open("a") as log_file:
        log_file.write("third line\nunfini")
    assert reader.hear("third line") == "third line"
    with file.open("a") as log_file:
        log_file.write("shed\n" + "".join(f"many {number}\n" for number in range(500)))
    expect(log).to_contain_text("many 499")
    assert "the last one: many 499" in reader.hear("many 499")
    assert [each for each in reader.heard() if "many" in each or "unfinished" in each] == []
    reader.tab_to("Search the whole log, textbox", back=True)
    reader.type("second")
    reader.press("Enter")
    reader.hear("1 of 1")
    expect(log.locator("[data-at]")).to_contain_text("second line")
    assert server.http.put("/jobs/admin~heard/executionType", json={"value": "STOP"}).is_success
    reader.hear("heard: Stopped")


def _log_of(server: Server, name: str) -> Path:
    task: Any = server.get(f"/jobs/admin~{name}")["taskRoles"]["worker"]["taskStatuses"][0]
    return server.data_dir / "data" / "logs" / str(task["containerId"]) / "stdout.log"


@pytest.mark.parametrize(
    ("path", "opener", "dialog"),
    [("/users", "New user", "New user"), ("/profile", "New token", "New token"), ("/", FIND, FIND)],
)
def test_a_closed_dialog_gives_the_focus_back(
    reader: ScreenReader, visitor: Visitor, path: str, opener: str, dialog: str
) -> None:
    page = visitor.page
    page.goto(path)
    button = page.get_by_role("button", name=opener)
    button.focus()
    reader.press("Enter")
    page.get_by_role("dialog", name=dialog).wait_for()
    reader.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    expect(button).to_be_focused()
