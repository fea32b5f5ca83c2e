"""The page of a virtual cluster's queue: managers move jobs by dragging and with buttons, others look."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.portal.browsing import BOTH, Visitor, expect, settled
from tests.e2e.portal.walking import PASSWORD
from tests.e2e.server import Server, until

pytestmark = [pytest.mark.slow, pytest.mark.full]
FILE = """
protocolVersion: 2
name: {name}
type: job
prerequisites: [{{type: dockerimage, name: image, uri: none}}]
taskRoles:
  w:
    instances: 1
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 1024, gpu: 8}}
    commands: [sleep 1000]
defaults: {{virtualCluster: vision}}
"""


@pytest.fixture(scope="module")
def line(server: Server) -> Server:
    """Return the platform with a job that has all of vision, three that wait, a user and a manager of vision."""
    group = {
        "groupname": "leads",
        "extension": {"acls": {"virtualClusters": ["vision"], "managedVirtualClusters": ["vision"]}},
    }
    assert server.http.post("/groups", json=group).is_success
    for name, groups in (("ula", []), ("mio", ["leads"])):
        body = {"username": name, "password": PASSWORD, "grouplist": groups, "virtualCluster": ["vision"]}
        assert server.http.post("/users", json=body).is_success, name
    for name in ("runs", "one", "two", "three"):
        answer = server.http.post("/jobs", content=FILE.format(name=name), headers={"Content-Type": "text/yaml"})
        assert answer.is_success, answer.text
        if name == "runs":
            until(lambda: server.state("runs") == "RUNNING", "it runs")
    return server


def test_the_queue_on_a_telephone_in_the_dark_and_in_chinese(line: Server, browser: Any) -> None:
    visitor = Visitor(browser, line.url, viewport={"width": 375, "height": 740}, themes=BOTH, locale="zh-CN")
    visitor.log_in()
    settled(visitor.page, "/queue?vc=vision")
    visitor.page.get_by_role("button", name="上移 admin~three").wait_for()
    assert visitor.examine() == []
    assert visitor.overflow() <= 0
    # The name of a job is readable without turning the telephone.
    assert visitor.page.get_by_role("link", name="admin~three").bounding_box()["height"] < 30
    visitor.close()
    assert visitor.complaints == []


def jobs(page: Any) -> Any:
    return page.get_by_role("table", name="Queue").locator("tbody tr td:nth-child(2)")


@pytest.mark.parametrize("user", ["mio", "ula"])
def test_managers_reorder_the_queue_and_others_look(line: Server, browser: Any, user: str) -> None:
    visitor = Visitor(browser, line.url)
    visitor.log_in(user, PASSWORD)
    page = visitor.page
    settled(page, "/queue?vc=vision")
    rows = page.get_by_role("table", name="Queue").locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("virtual cluster vision uses")
    up = page.get_by_role("button", name="Move admin~three up")
    assert visitor.examine() == []
    if user == "ula":
        expect(up).to_have_count(0)
        expect(page.locator("tr[draggable=true]")).to_have_count(0)
    else:
        expect(jobs(page)).to_have_text(["admin~one", "admin~two", "admin~three"])
        up.focus()
        page.keyboard.press("Enter")
        expect(jobs(page)).to_have_text(["admin~one", "admin~three", "admin~two"])
        expect(page.get_by_role("status").filter(has_text="goes before")).to_contain_text(
            "admin~three goes before admin~two."
        )
        expect(page.get_by_role("button", name="Copy as command").nth(1)).to_have_attribute(
            "title", "pai job move admin~three --before admin~two"
        )
        # The keyboard moves it on from where it is, also when nothing is above it any more.
        expect(up).to_be_focused()
        page.keyboard.press("Enter")
        expect(jobs(page)).to_have_text(["admin~three", "admin~one", "admin~two"])
        expect(up).to_be_focused()
        expect(up).to_have_attribute("aria-disabled", "true")
        page.keyboard.press("Enter")
        down = page.get_by_role("button", name="Move admin~three down")
        for expected in (["admin~one", "admin~three", "admin~two"], ["admin~one", "admin~two", "admin~three"]):
            down.focus()
            page.keyboard.press("Enter")
            expect(jobs(page)).to_have_text(expected)
            expect(down).to_be_focused()
        rows.nth(1).drag_to(rows.nth(0))
        expect(jobs(page)).to_have_text(["admin~two", "admin~one", "admin~three"])
        found = line.http.get("/virtual-clusters/vision/queue").json()["jobs"]
        assert [job["job"] for job in found] == ["admin~two", "admin~one", "admin~three"]
        expect(page.get_by_role("button", name="Move admin~two up")).to_be_disabled()
    visitor.close()
    assert visitor.complaints == []
