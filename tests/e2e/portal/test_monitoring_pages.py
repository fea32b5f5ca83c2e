"""Charts of what jobs and the cluster use, and the alerts: what fires, the rules, and what they did."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.portal.browsing import BOTH, BUILT, Visitor, expect
from tests.e2e.server import Server, until

pytestmark = [pytest.mark.slow, pytest.mark.full]
# Enough to be measured, and far less than a processor, which other tests need.
BUSY = "while :; do sleep 0.2; i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; done"
USER = {"username": "una", "password": "correct-horse-battery"}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a platform whose tasks are processes, which it measures."""
    if not (BUILT / "index.html").exists():
        pytest.skip("the portal is not built here: make portal")
    found = Server.start(tmp_path_factory.mktemp("measured"), 0, "--backend", "process")
    assert found.http.post("/users", json=USER).is_success
    found.submit("busy", BUSY)
    yield found
    # Tasks outlive their server.
    found.http.put("/jobs/admin~busy/executionType", json={"value": "STOP"})
    until(lambda: found.state("busy") == "STOPPED", "it is stopped")
    found.end()


@pytest.fixture
def person(real: Server, browser: Any) -> Iterator[Visitor]:
    """Return an administrator at that platform, in both themes."""
    found = Visitor(browser, real.url, themes=BOTH)
    found.log_in()
    yield found
    found.close()
    assert found.complaints == []


@pytest.fixture
def una(real: Server, browser: Any) -> Iterator[Visitor]:
    """Return a user with a small telephone, who reads Chinese."""
    found = Visitor(browser, real.url, viewport={"width": 375, "height": 700}, locale="zh-CN")
    found.log_in(user=USER["username"], password=USER["password"])
    yield found
    found.close()
    assert found.complaints == []


def test_what_a_job_uses_is_drawn_and_said(real: Server, person: Visitor) -> None:
    charts = "/jobs/admin~busy/metrics?name=task_cpu_percent"
    until(lambda: any(one["mean"] for one in real.get(charts)["charts"][0]["series"]), "it is measured")
    person.open("/jobs/admin~busy?tab=use", "busy")
    page = person.page
    chart = page.get_by_role("figure", name="Processors in use")
    chart.locator("canvas").wait_for()
    expect(chart.get_by_role("img")).to_have_attribute("aria-label", re.compile(r"all: now [\d.]+, between "))
    page.get_by_label("Use of").select_option("worker/0")
    one = page.get_by_role("figure", name="Processor use; 100 % is one processor")
    one.locator("canvas").wait_for()
    assert page.url.endswith("of=worker%2F0")
    assert person.examine() == []


def test_a_rule_is_tried_on_the_past_saved_and_reverted(real: Server, person: Visitor) -> None:
    person.open("/alerts?tab=rules", "Alerts")
    page = person.page
    page.get_by_label("Search rules").fill("NodeNotReady")
    page.get_by_role("button", name="NodeNotReady", exact=True).click()
    page.get_by_role("button", name="Try it on the past").click()
    page.get_by_role("status").get_by_text("It would").wait_for()
    assert person.examine() == []
    page.get_by_label("Reason").fill("only a test")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("dialog").wait_for(state="detached")
    until(lambda: real.get("/alert-rules/NodeNotReady")["origin"] == "changed", "it is changed")
    page.get_by_role("button", name="NodeNotReady", exact=True).click()
    page.get_by_text("only a test").first.wait_for()
    page.get_by_role("button", name="Revert").click()
    page.get_by_role("dialog", name="Remove the changes of NodeNotReady?").get_by_role("button", name="Remove").click()
    until(lambda: real.get("/alert-rules/NodeNotReady")["origin"] == "bundled", "it is as built in")


def test_a_rule_that_cannot_be_read_is_refused_where_it_is_typed(real: Server, person: Visitor) -> None:
    person.open("/alerts?tab=rules&rule=%2B", "Alerts")
    person.page.get_by_role("textbox", name="Alert rule").fill("alert: Wrong\nexpr: 1 /\n")
    person.page.get_by_role("button", name="Save", exact=True).click()
    person.page.get_by_role("alert").wait_for()
    assert real.http.get("/alert-rules/Wrong").status_code == 404
    # Chromium wants to give typed text the colours of what it replaces, as a style that the policy prevents.
    person.complaints = [one for one in person.complaints if "inline style" not in one]


def test_an_alert_is_seen_and_silenced(real: Server, person: Visitor) -> None:
    node = real.get("/nodes")[0]["name"]
    assert real.http.put(f"/nodes/{node}", json={"drained": True, "reason": "new disks"}).is_success
    try:
        person.open("/alerts", "Alerts")
        page = person.page
        row = page.get_by_role("row").filter(has_text=node).first
        row.wait_for()
        assert person.examine() == []
        if not real.get("/alerts/silences"):
            row.get_by_role("button", name="Silence").click()
            dialog = page.get_by_role("dialog", name="Silence this alert?")
            dialog.get_by_label("Reason").fill("we know")
            dialog.get_by_role("button", name="Silence", exact=True).click()
            dialog.wait_for(state="detached")
        until(lambda: real.get("/alerts/silences")[0]["comment"] == "we know", "it is silenced")
        page.get_by_role("tab", name="Silences").click()
        page.get_by_role("cell", name="we know").first.wait_for()
        assert person.examine() == []
    finally:
        real.http.put(f"/nodes/{node}", json={"drained": False})


def test_every_tab_is_readable_also_when_it_is_empty(person: Visitor) -> None:
    for tab, words in (("done", "No alert has done anything"), ("channels", "No channels yet")):
        person.open(f"/alerts?tab={tab}", "Alerts")
        person.page.get_by_text(words).or_(person.page.get_by_role("table").first).first.wait_for()
        assert person.examine() == [], tab


def test_the_use_of_the_cluster_is_drawn(real: Server, person: Visitor) -> None:
    chart = "/metrics/pai_node_cpu_percent"
    until(lambda: any(one["mean"] for one in real.get(chart)["series"]), "it is measured")
    person.open("/metrics", "Metrics")
    person.page.get_by_role("listitem").filter(has_text="Databaseworks").wait_for()
    figure = person.page.get_by_role("figure", name="Processors of nodes, how busy")
    figure.locator("canvas").wait_for()
    person.page.get_by_text("6 hours").click()
    assert person.page.url.endswith("span=6h")
    figure.locator("canvas").wait_for()
    assert person.examine() == []


def test_a_user_sees_their_own_alerts_and_no_more(una: Visitor) -> None:
    una.open("/alerts", "告警")
    una.page.get_by_text("与您的作业有关的告警会显示在这里。").wait_for()
    assert una.overflow() <= 0
    assert una.examine() == []
    una.open("/metrics", "指标")
    una.page.get_by_role("status").first.wait_for()
    expect(una.page.locator("canvas")).to_have_count(0)
    assert una.overflow() <= 0
