"""Reports of use and budgets in the portal: who used what, what of it was wasted, and what may be used."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from openpai.ports.usage import LentUse
from openpai.store.database import Database
from openpai.store.schema import users
from openpai.store.usage import SqlUsageStore
from tests.contracts.held import Held, run
from tests.e2e.portal.browsing import BOTH, BUILT, Visitor, expect
from tests.e2e.server import Server, until

pytestmark = [pytest.mark.slow, pytest.mark.full]
PASSWORD = "correct-horse-battery"
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


async def _use(path: Path, now_ms: int) -> None:
    """Let two users have used GPUs on each of the last nine days."""
    database = Database(f"sqlite:///{path}")
    held = []
    for day in range(1, 10):
        at_ms = now_ms - day * DAY_MS
        held.append(Held("ulla", "vision", at_ms, at_ms + (12 - day) * HOUR_MS, gpus=4, cpus=8))
        held.append(Held("ben", "speech", at_ms, at_ms + 3 * HOUR_MS, gpus=2, cpus=4))
    try:
        # What was used before an account was made is not its owner's.
        await database.write(lambda connection: connection.execute(sa.update(users).values(created_at_ms=0)))
        await run(database, *held)
        lent = (
            LentUse("vision", "ulla", borrowed_gpu_ms=60 * HOUR_MS, idle_gpu_ms=40 * HOUR_MS, failed_gpu_ms=HOUR_MS),
            LentUse("speech", "ben", preempted_gpu_ms=5 * HOUR_MS),
            LentUse("speech", lent_gpu_ms=60 * HOUR_MS),
        )
        await SqlUsageStore(database).add_lent_use(lent, now_ms - 2 * DAY_MS, None)
    finally:
        database.close()


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a platform on which two users used GPUs in the last days."""
    if not (BUILT / "index.html").exists():
        pytest.skip("the portal is not built here: make portal")
    options = ("--backend", "simulated", "--gpus-per-node", "8", "--share", "vision: 1 node, speech: 8 GPUs")
    first = Server.start(tmp_path_factory.mktemp("used"), 0, *options)
    for name in ("ulla", "ben"):
        assert first.http.post("/users", json={"username": name, "password": PASSWORD}).is_success
    first.end()
    # A thread of its own, as the driver of the browser may have an event loop in this one.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _use(first.data_dir / "data" / "openpai.db", int(time.time() * 1000))).result()
    found = first.again()
    yield found
    found.end()


@pytest.fixture
def person(used: Server, browser: Any) -> Iterator[Visitor]:
    """Return an administrator at that platform, in both themes."""
    found = Visitor(browser, used.url, themes=BOTH)
    found.log_in()
    yield found
    found.close()
    assert found.complaints == []


@pytest.fixture
def ulla(used: Server, browser: Any) -> Iterator[Visitor]:
    """Return a user with a small telephone, who reads Chinese."""
    found = Visitor(browser, used.url, viewport={"width": 375, "height": 700}, locale="zh-CN")
    found.log_in("ulla", PASSWORD)
    yield found
    found.close()
    assert found.complaints == []


def test_a_report_shows_what_was_used_and_wasted(used: Server, person: Visitor) -> None:
    person.open("/reports", "Reports")
    page = person.page
    page.get_by_role("figure", name="Hours of each day").locator("canvas").wait_for()
    table = page.get_by_role("table", name="Who used it")
    table.get_by_role("link", name="vision").wait_for()
    bar = table.get_by_role("row").filter(has_text="vision").get_by_role("img")
    expect(bar).to_have_attribute("aria-label", re.compile("60 borrowed, 41 wasted"))
    assert person.examine() == []
    page.get_by_role("radiogroup", name="Use by").get_by_text("Users").click()
    table.get_by_role("link", name="ulla").wait_for()
    assert "by=user" in page.url
    with page.expect_download() as saved:
        page.get_by_role("button", name="CSV").click()
    lines = Path(saved.value.path()).read_text().splitlines()
    assert lines[0].startswith("user,gpuHours,")
    assert sorted(line.partition(",")[0] for line in lines[1:]) == ["ben", "total", "ulla"]


def test_the_days_of_a_report_are_in_the_address(person: Visitor) -> None:
    person.open("/reports?from=2020-01-01&to=2020-01-02", "Reports")
    page = person.page
    page.get_by_text("Nothing was used in that time").wait_for()
    assert person.examine() == []
    page.get_by_role("button", name="7 days").click()
    page.get_by_role("table", name="Who used it").wait_for()
    assert "from=2020" not in page.url
    page.get_by_role("button", name="Preview").click()
    page.get_by_text("GPU hours of").first.wait_for()
    assert person.examine() == []


def test_a_user_sees_only_their_own_use(ulla: Visitor) -> None:
    ulla.open("/reports", "报告")
    ulla.page.get_by_role("link", name="ulla").wait_for()
    expect(ulla.page.get_by_text("ben", exact=True)).to_have_count(0)
    assert ulla.overflow() <= 0
    assert ulla.examine() == []


def test_a_budget_is_set_changed_and_removed(used: Server, person: Visitor) -> None:
    person.open("/budgets", "Budgets")
    page = person.page
    page.get_by_role("button", name="New budget").click()
    dialog = page.get_by_role("dialog", name="New budget")
    dialog.get_by_label("Budget of a").select_option("vc")
    dialog.get_by_label("Name", exact=True).fill("nowhere")
    dialog.get_by_label("GPU hours").fill("100")
    dialog.get_by_label("In what time").select_option("total")
    dialog.get_by_role("button", name="Save").click()
    dialog.get_by_role("alert").get_by_text("nowhere").wait_for()
    assert person.examine() == []
    dialog.get_by_label("Name", exact=True).fill("vision")
    page.keyboard.press("Escape") if page.get_by_role("listbox").count() else None
    dialog.get_by_label("Once it is used up").select_option("opportunistic")
    dialog.get_by_role("button", name="Save").click()
    dialog.wait_for(state="detached")
    until(lambda: used.get("/budgets") != [], "it is set")
    (budget,) = used.get("/budgets")
    assert (budget["name"], budget["gpuHours"], budget["stops"]) == ("vision", 100, "opportunistic")
    card = page.get_by_role("listitem").filter(has_text="vision")
    card.get_by_text("used up", exact=True).wait_for()
    card.get_by_text("opportunistic jobs are stopped, 60 minutes after a notice").wait_for()
    assert person.examine() == []
    card.get_by_role("button", name="Change the budget of vision").click()
    dialog = page.get_by_role("dialog", name="Change the budget of vision")
    dialog.get_by_label("GPU hours").fill("10000")
    dialog.get_by_role("button", name="Save").click()
    card.get_by_text("within the budget").wait_for()
    card.get_by_role("button", name="Remove the budget of vision").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    page.get_by_text("No budgets").wait_for()
    assert used.get("/budgets") == []


def test_a_user_sees_their_own_budget_and_may_not_change_it(used: Server, ulla: Visitor) -> None:
    body = {"kind": "user", "name": "ulla", "gpuHours": 300, "period": "total", "contact": "the lab office"}
    assert used.http.put("/budgets", json=body).is_success
    assert used.http.put("/budgets", json=body | {"name": "ben"}).is_success
    try:
        ulla.open("/budgets", "预算")
        ulla.page.get_by_text("the lab office").wait_for()
        expect(ulla.page.get_by_role("listitem")).to_have_count(1)
        expect(ulla.page.get_by_role("button", name="新建预算")).to_have_count(0)
        assert ulla.overflow() <= 0
        assert ulla.examine() == []
    finally:
        for name in ("ulla", "ben"):
            used.http.delete("/budgets", params={"kind": "user", "name": name, "period": "total"})


def test_the_past_is_replayed_with_other_promises(used: Server, person: Visitor) -> None:
    person.open("/what-if?change=vision%3D-800", "What if")
    person.page.get_by_text("vision does not have 800 GPUs").wait_for()
    person.open("/what-if", "What if")
    page = person.page
    page.get_by_text("Ask what would have been").wait_for()
    page.get_by_label("Virtual cluster").select_option("vision")
    page.get_by_label("GPUs more, or fewer (-)").fill("8")
    assert person.examine() == []
    page.get_by_role("button", name="Replay").click()
    table = page.get_by_role("table", name="Before and after")
    table.get_by_role("row").filter(has_text="all together").wait_for()
    table.get_by_role("row").filter(has_text="vision").get_by_text("16").first.wait_for()
    assert "change=vision" in page.url
    page.get_by_role("figure", name="GPUs in use").locator("canvas").wait_for()
    assert person.examine() == []


def test_the_past_of_others_is_not_for_everybody(ulla: Visitor) -> None:
    ulla.open("/what-if?change=vision%3D%2B8", "假设分析")
    ulla.page.get_by_text("您无权查看").wait_for()
    assert ulla.overflow() <= 0
    assert ulla.examine() == []


def test_the_first_page_says_what_looks_wrong_and_what_was_used_in_the_week(used: Server, person: Visitor) -> None:
    node = used.get("/nodes")[0]["name"]
    assert used.http.put(f"/nodes/{node}", json={"badDevices": [0], "reason": "too hot"}).is_success
    try:
        person.open("/", "Hello, admin")
        page = person.page
        page.get_by_role("heading", name="What looks wrong").wait_for()
        page.get_by_role("listitem").filter(has_text=node).get_by_text("has 1 bad GPU").wait_for()
        assert person.examine() == []
        page.get_by_role("listitem").filter(has_text=node).get_by_role("link", name="Look at it").first.click()
        page.get_by_role("dialog", name=node).wait_for()
    finally:
        used.http.put(f"/nodes/{node}", json={"badDevices": []})


def test_a_user_sees_their_own_week(ulla: Visitor) -> None:
    ulla.open("/", "您好，ulla")
    ulla.page.get_by_role("heading", name="我最近七天").wait_for()
    assert ulla.overflow() <= 0
    assert ulla.examine() == []
