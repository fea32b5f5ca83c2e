"""Arrays of jobs in the list: one row, which is opened, and stopped as one."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.e2e.portal.browsing import WITHIN_MS, Visitor, expect
from tests.e2e.server import Server, job_text, until

pytestmark = [pytest.mark.slow, pytest.mark.full]
SHARES_SERVER = True


def _sweep(name: str) -> str:
    matrix = {"matrix": {"lr": [1, 2, 3]}}
    text: dict[str, Any] = json.loads(job_text(name, "sleep 1000", extras={"sweep": matrix}))
    return json.dumps({**text, "parameters": {"lr": 1}})


def test_an_array_is_one_row_that_opens_and_stops_as_one(visitor: Visitor, server: Server) -> None:
    assert server.http.post("/sweeps", content=_sweep("grid")).is_success
    assert server.submit("of-its-own", "sleep 1000").is_success
    until(lambda: server.get("/sweeps/grid")["states"] == {"RUNNING": 3}, "they run")
    visitor.open("/jobs?user=admin", "Jobs")
    page = visitor.page
    rows = page.get_by_role("row")
    expect(rows.filter(has_text="array of 3 jobs")).to_have_count(1, timeout=WITHIN_MS)
    expect(rows.filter(has_text="of-its-own")).to_have_count(1)
    expect(page.get_by_role("link", name="grid-", exact=False)).to_have_count(0)
    assert visitor.examine() == []
    page.get_by_label("Choose all jobs of admin~grid").check()
    page.get_by_text("3 jobs chosen").wait_for()
    page.get_by_role("button", name="Choose none").click()
    page.get_by_role("link", name="Home", exact=True).click()
    latest = page.get_by_role("listitem")
    expect(latest.filter(has_text="array of 3 jobs")).to_have_count(1, timeout=WITHIN_MS)
    expect(latest.filter(has_text="grid-")).to_have_count(0)
    latest.filter(has_text="array of 3 jobs").get_by_role("link").click()
    bar = page.get_by_role("region", name="Array grid")
    bar.wait_for()
    expect(page.get_by_role("link", name=re.compile("^grid-[123]$"))).to_have_count(3, timeout=WITHIN_MS)
    page.reload()
    bar.get_by_role("button", name="Stop all").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Copy as command").wait_for()
    assert dialog.get_by_role("button", name="Copy as command").get_attribute("title") == "pai sweep stop admin~grid"
    assert visitor.examine() == []
    dialog.get_by_role("button", name="Stop all").click()
    until(lambda: server.get("/sweeps/grid")["states"] == {"STOPPED": 3}, "all are stopped")
    expect(bar.get_by_role("button", name="Stop all")).to_be_disabled(timeout=WITHIN_MS)
    assert server.state("of-its-own") == "RUNNING"
    bar.get_by_role("button", name="All jobs").click()
    expect(bar).to_have_count(0)


def test_a_file_with_a_matrix_is_submitted_as_an_array(visitor: Visitor) -> None:
    visitor.open("/submit", "Submit a job")
    page = visitor.page
    page.evaluate("text => sessionStorage.setItem('pai-draft', text)", _sweep("matrix"))
    page.reload()
    expect(page.get_by_label("Name", exact=True)).to_have_value("matrix", timeout=WITHIN_MS)
    page.get_by_text("The server accepts this file").wait_for()
    page.get_by_role("button", name="Submit", exact=True).click()
    page.get_by_role("region", name="Array matrix").wait_for()
    page.wait_for_url("**/jobs?user=admin&sweep=matrix")
