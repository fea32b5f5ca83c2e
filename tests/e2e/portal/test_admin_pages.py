"""The pages of administrators, the map of the cluster, and what other users see of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.portal.browsing import BOTH, Visitor, expect, settled, walked
from tests.e2e.portal.walking import broken_commands
from tests.e2e.server import Server, until

pytestmark = [pytest.mark.slow, pytest.mark.full]
PAGES = (
    ("/groups", "Groups"),
    ("/virtual-clusters", "Virtual clusters"),
    ("/exit-specs", "Exit specs"),
    ("/cluster?view=map", "Cluster"),
)
CHANGES = ("New group", "New virtual cluster", "New exit spec", "Save")
PASSWORD = "correct-horse-battery"


@pytest.fixture(scope="module")
def users(server: Server) -> Server:
    """Return the platform with a user, and a manager of the virtual cluster vision."""
    group = {
        "groupname": "leads",
        "extension": {"acls": {"virtualClusters": ["vision"], "managedVirtualClusters": ["vision"]}},
    }
    assert server.http.post("/groups", json=group).is_success
    for name, groups in (("ula", []), ("mio", ["leads"])):
        body = {"username": name, "password": PASSWORD, "grouplist": groups}
        assert server.http.post("/users", json=body).is_success, name
    return server


@pytest.fixture(params=["ula", "mio"])
def other(request: pytest.FixtureRequest, users: Server, browser: Any) -> Iterator[Visitor]:
    """Return a user, and a manager, who are no administrators."""
    found = Visitor(browser, users.url)
    found.log_in(request.param, PASSWORD)
    yield found
    found.close()
    assert found.complaints == []


def test_others_may_look_at_these_pages_and_change_nothing(other: Visitor) -> None:
    other.open(*PAGES[0])
    for path, heading in PAGES:
        other.walk(path, heading)
        assert other.examine() == [], path
        for name in CHANGES:
            expect(other.page.get_by_role("button", name=name)).to_have_count(0)
    other.walk("/users", "Users")
    other.page.get_by_text("You may not see this").wait_for()


def test_a_guest_sees_the_login_on_every_page(server: Server, browser: Any) -> None:
    guest = Visitor(browser, server.url)
    for path, _ in (
        *PAGES,
        ("/", ""),
        ("/jobs", ""),
        ("/submit", ""),
        ("/storages", ""),
        ("/audit", ""),
        ("/profile", ""),
    ):
        guest.page.goto(path)
        guest.page.get_by_role("heading", name="Log in to OpenPAI").wait_for()
    guest.close()
    assert guest.complaints == []


def test_a_group_is_added_changed_and_removed(visitor: Visitor, server: Server) -> None:
    visitor.open("/groups", "Groups")
    page = visitor.page
    page.get_by_role("button", name="New group").click()
    page.get_by_label("Name", exact=True).fill("readers")
    page.get_by_role("group", name="May use virtual clusters").get_by_label("vision").check()
    assert visitor.examine() == []
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="readers", exact=True).click()
    page.get_by_text("no members").wait_for()
    page.get_by_label("Description").fill("they read")
    page.get_by_role("group", name="May use virtual clusters").get_by_label("speech").check()
    page.get_by_role("button", name="Save").click()
    page.get_by_text("they read").wait_for()
    found = server.get("/groups/readers")
    assert (found["description"], found["extension"]["acls"]["virtualClusters"]) == ("they read", ["vision", "speech"])
    page.get_by_role("button", name="readers", exact=True).click()
    page.get_by_role("button", name="Remove the group").click()
    page.get_by_role("dialog", name="Remove readers?").get_by_role("button", name="Remove").click()
    page.get_by_role("button", name="readers", exact=True).wait_for(state="detached")
    assert server.http.get("/groups/readers").status_code == 404


def test_a_guarantee_is_changed_while_jobs_run(visitor: Visitor, server: Server) -> None:
    visitor.open("/virtual-clusters", "Virtual clusters")
    page = visitor.page
    page.get_by_role("button", name="New virtual cluster").click()
    page.get_by_label("Name", exact=True).fill("audio")
    page.get_by_label("Guaranteed").fill("100 nodes")
    dialog = page.get_by_role("dialog", name="New virtual cluster")
    # Refused before it is saved, with the reason.
    dialog.get_by_role("alert").get_by_text("This would be refused:").wait_for()
    page.get_by_role("button", name="Save").click()
    # The server knows what there is.
    page.get_by_role("status").get_by_text("100 nodes").or_(
        page.get_by_role("status").get_by_text("node")
    ).first.wait_for()
    assert "audio" not in server.get("/virtual-clusters")
    page.get_by_label("Guaranteed").fill("4 GPUs")
    dialog.get_by_role("listitem").filter(has_text="audio").get_by_text("0 → 4 GPUs").wait_for()
    expect(dialog.get_by_role("listitem").filter(has_text="default")).to_contain_text("−4")
    assert "audio" not in server.get("/virtual-clusters")
    assert visitor.examine() == []
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Remove audio").click()
    assert "audio" in server.get("/virtual-clusters")
    page.get_by_role("dialog", name="Remove audio?").get_by_role("button", name="Remove").click()
    page.get_by_role("button", name="Remove audio").wait_for(state="detached")
    assert "audio" not in server.get("/virtual-clusters")


def test_an_exit_rule_is_tried_changed_and_reverted(visitor: Visitor, server: Server) -> None:
    visitor.open("/exit-specs?spec=cuda_oom", "Exit specs")
    page = visitor.page
    page.get_by_label("Try it on the end of a log").fill("RuntimeError: CUDA out of memory. Tried to allocate 2 GiB")
    page.get_by_role("button", name="Test", exact=True).click()
    page.get_by_text("In the text: cuda_oom before, cuda_oom after the edit.").wait_for()
    assert visitor.examine() == []
    page.get_by_label("Reason").fill("only a test")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("dialog").wait_for(state="detached")
    until(lambda: server.get("/exit-specs/cuda_oom")["origin"] == "changed", "it is changed")
    page.get_by_role("button", name="cuda_oom", exact=True).click()
    page.get_by_text("only a test").wait_for()
    page.get_by_role("button", name="Revert").click()
    page.get_by_role("dialog", name="Remove the changes of cuda_oom?").get_by_role("button", name="Remove").click()
    until(lambda: server.get("/exit-specs/cuda_oom")["origin"] == "bundled", "it is as before")


def test_the_map_shows_which_job_uses_which_gpu(visitor: Visitor, server: Server) -> None:
    resources = {"resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 3}}
    server.submit("on-the-map", "sleep 1000", role=resources)
    until(lambda: server.state("on-the-map") == "RUNNING", "it runs")
    visitor.open("/cluster?view=map", "Cluster")
    page = visitor.page
    expect(page.locator("i[title$='admin~on-the-map']")).to_have_count(3)
    page.get_by_role("button", name="Show admin~on-the-map on the map").click()
    lit = page.locator("i[data-is=used]:not([data-dim])")
    expect(lit).to_have_count(3)
    assert visitor.examine() == []
    until(lambda: any(node["temperatures"] for node in server.get("/nodes")), "its GPUs are measured")
    page.locator("label").filter(has_text="Temperature").click()
    expect(page.locator("i[title$='admin~on-the-map · 60 °C'][data-heat=cool]")).to_have_count(3)
    expect(page.get_by_role("button", name="60 °C: 3 of 8 in use, 0 bad or drained")).to_have_count(1)
    assert visitor.examine() == []
    page.locator("label").filter(has_text=re.compile("^Jobs$")).click()
    node = page.get_by_role("button", name="in use").filter(has=page.locator("i[title$='admin~on-the-map']")).first
    node.click()
    page.get_by_role("dialog").get_by_role("link", name="admin~on-the-map").wait_for()
    expect(page.get_by_role("dialog").get_by_text("60 °C")).to_have_count(3)


def test_admin_pages_on_a_small_screen(server: Server, browser: Any) -> None:
    visitor = Visitor(browser, server.url, viewport={"width": 375, "height": 740}, themes=BOTH, locale="zh-CN")
    visitor.log_in()
    settled(visitor.page, "/")
    for path, _ in PAGES:
        walked(visitor.page, path)
        assert visitor.examine() == [], path
        assert visitor.overflow() <= 0, path
    visitor.close()
    assert visitor.complaints == []


def test_a_node_is_drained_taken_back_and_its_bad_gpus_are_marked(visitor: Visitor, server: Server) -> None:
    def node() -> dict[str, Any]:
        return server.http.get("/nodes/node-04").json()

    visitor.open("/cluster?node=node-04", "Cluster")
    page = visitor.page
    drawer = page.get_by_role("dialog")
    drawer.get_by_label("Reason").fill("new fan")
    drawer.get_by_label("What runs there may run on").select_option("8")
    titled = drawer.locator("button[title^='pai node drain']")
    expect(titled).to_have_attribute("title", "pai node drain node-04 --deadline 8h --reason 'new fan'")
    assert broken_commands(page) == []
    drawer.get_by_role("button", name="Drain", exact=True).click()
    drawer.get_by_text("Drained: new fan").wait_for()
    assert node()["drainDeadline"] is not None
    drawer.get_by_role("button", name="Undrain").click()
    drawer.get_by_role("button", name="Drain", exact=True).wait_for()
    drawer.get_by_role("checkbox", name="3", exact=True).check()
    drawer.get_by_role("checkbox", name="1", exact=True).check()
    expect(drawer.locator("button[title^='pai node mark-bad']")).to_have_attribute(
        "title", "pai node mark-bad node-04 1,3"
    )
    drawer.get_by_role("button", name="Save the bad GPUs").click()
    expect(drawer.get_by_role("button", name="Save the bad GPUs")).to_have_count(0)
    assert (node()["drained"], node()["badDevices"]) == (False, [1, 3])
    for gpu in ("1", "3"):
        drawer.get_by_role("checkbox", name=gpu, exact=True).uncheck()
    expect(drawer.locator("button[title^='pai node mark-bad']")).to_have_attribute(
        "title", "pai node mark-bad node-04 none"
    )
    assert visitor.examine() == []
    drawer.get_by_role("button", name="Save the bad GPUs").click()
    expect(drawer.get_by_role("button", name="Save the bad GPUs")).to_have_count(0)
    assert node()["badDevices"] == []
