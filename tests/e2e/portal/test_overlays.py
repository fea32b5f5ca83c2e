"""Every dialog, menu and drawer, and the command palette, examined with axe while it is open, light and dark."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.e2e.portal.browsing import BOTH, WITHIN_MS, Visitor, expect, settled, walked
from tests.e2e.portal.walking import PASSWORD
from tests.e2e.server import Server, until

pytestmark = [pytest.mark.slow, pytest.mark.full]
OVERLAYS: Final = """
/                       | Find a job or a page
/                       | admin administrator
/jobs                   | State
/jobs                   | Choose columns
/jobs/admin~open        | Stop
/jobs/admin~open        | Restart
/users                  | New user
/users                  | Import CSV
/users                  | ula
/users?user=ula         | Remove the user
/groups                 | New group
/groups                 | readers
/virtual-clusters       | New virtual cluster
/virtual-clusters       | Change vision
/exit-specs             | New exit spec
/exit-specs             | cuda_oom
/budgets                | New budget
/budgets                | Remove the budget of ula
/alerts?tab=rules       | New rule
/announcements          | New announcement
/announcements          | Remove the announcement: look
/profile                | New token
/storages?storage=files | notes.txt
/storages?storage=files | Remove notes.txt
/storages               | New storage
/storages?storage=files | Manage
/cluster                | CPU
"""
"""A page, and the button that opens something there."""
EXACTLY: Final = ("State", "Stop", "Restart", "ula", "readers")
OPEN: Final = "[role=dialog]:visible, [role=menu]:visible"


@pytest.fixture(scope="module")
def full(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """Return the platform with something to open on each page."""
    files = tmp_path_factory.mktemp("files")
    (files / "notes.txt").write_text("a text\n")
    assert server.submit("open", "sleep 1000").is_success
    for path, body in (
        ("/users", {"username": "ula", "password": PASSWORD}),
        ("/groups", {"groupname": "readers", "extension": {"acls": {"virtualClusters": ["vision"]}}}),
        ("/announcements", {"text": "look here", "level": "warning"}),
        ("/storages", {"name": "files", "type": "local", "data": {"path": str(files)}}),
    ):
        answer = server.http.post(path, json=body)
        assert answer.is_success, answer.text
    answer = server.http.put("/budgets", json={"kind": "user", "name": "ula", "period": "month", "gpuHours": 10})
    assert answer.is_success, answer.text
    until(lambda: server.state("open") == "RUNNING", "it runs")
    return server


def test_everything_that_opens_has_no_violations(full: Server, browser: Any) -> None:
    visitor = Visitor(browser, full.url, themes=BOTH)
    visitor.log_in()
    page, wrong = visitor.page, []
    settled(page, "/")
    for line in OVERLAYS.strip().splitlines():
        path, _, name = (part.strip() for part in line.partition("|"))
        walked(page, path)
        page.get_by_role("button", name=name, exact=name in EXACTLY).nth(0 if name == "State" else -1).click()
        try:
            expect(page.locator(OPEN).last).to_be_visible(timeout=WITHIN_MS / 4)
        except AssertionError:
            wrong.append(f"{path}, {name}: nothing opened")
            continue
        wrong += [f"{path}, {name}: {each}" for each in visitor.examine()]
        page.keyboard.press("Escape")
    visitor.close()
    assert wrong + visitor.complaints == []


def test_what_opens_on_a_telephone_has_no_violations_and_fits(full: Server, browser: Any) -> None:
    visitor = Visitor(browser, full.url, viewport={"width": 375, "height": 740}, locale="zh-CN", themes=BOTH)
    visitor.log_in()
    page, wrong = visitor.page, []
    settled(page, "/")
    for path in ("/", "/users?user=ula", "/exit-specs?spec=cuda_oom", "/groups?group=readers"):
        walked(page, path)
        if path == "/":
            page.get_by_role("button", name="打开菜单").click()
        page.get_by_role("dialog").wait_for()
        wrong += [f"{path}: {each}" for each in visitor.examine()]
        wide = page.get_by_role("dialog").evaluate("box => box.scrollWidth - box.clientWidth")
        wrong += [f"{path}: {wide} px too wide"] if wide > 0 else []
    visitor.close()
    assert wrong + visitor.complaints == []
