"""Reports of use over HTTP: whose hours a user may see, how they are summed, and what spreadsheets get."""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from openpai.access.accounts import DEFAULT_GROUP, Group, User
from openpai.api import answers
from openpai.api.shapes import reports as shapes
from openpai.ports.usage import LentUse
from openpai.store.schema import users
from openpai.store.usage import SqlUsageStore
from tests.contracts.held import Held, run

from .api_world import _HASH, World, open_world

HOUR_MS = 3_600_000
DAY_MS = 86_400_000
NOON_MS = 19_675 * DAY_MS + 12 * HOUR_MS
DAYS = {"from": "2023-11-13", "to": "2023-11-17"}

# In these three days: ann 8 GPU hours in vision and 2 in speech, bob 4 in vision over midnight, eve 1 in speech.
HELD = (
    Held("ann", "vision", NOON_MS, NOON_MS + 2 * HOUR_MS, gpus=4, cpus=8, memory_mb=2048),
    Held("ann", "speech", NOON_MS + DAY_MS, NOON_MS + DAY_MS + 2 * HOUR_MS),
    Held("bob", "vision", NOON_MS + 11 * HOUR_MS, NOON_MS + 13 * HOUR_MS, gpus=2),
    Held("=eve", "speech", NOON_MS + DAY_MS, NOON_MS + DAY_MS + HOUR_MS),
)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as world:
        world.clock.at_ms = NOON_MS + 2 * DAY_MS
        # What was used before an account was made is not its owner's.
        await world.database.write(lambda connection: connection.execute(sa.update(users).values(created_at_ms=0)))
        for group in (Group("seers", managed=("vision",)), Group("lab", virtual_clusters=("vision",))):
            await world.users.add_group(group)
        groups = {"max": ("seers",), "mia": ("lab", DEFAULT_GROUP)}
        for name, of in groups.items():
            await world.users.add_user(User(name, _HASH, 0, groups=tuple(Group(each) for each in of)))
        await run(world.database, *HELD)
        yield world


async def hours(world: World, user: str, /, **asked: Any) -> dict[str, float]:
    """Return the GPU hours in a user's report, by the columns that were asked for."""
    report = (await world.ask("GET", "/reports/use", user, params=DAYS | asked)).json()
    words = {"user": "user", "vc": "virtualCluster", "group": "group", "day": "day"}
    return {"/".join(row[words[word]] for word in report["by"]): row["gpuHours"] for row in report["rows"]}


async def test_an_administrator_sees_what_every_user_used(world: World) -> None:
    assert await hours(world, "root") == {"=eve": 1.0, "ann": 10.0, "bob": 4.0}
    report = await world.get("/reports/use", "root", **DAYS)
    used = {"gpuHours": 15.0, "cpuHours": 26.0, "memoryGbHours": 9.0, "taskAttempts": 4}
    assert {name: value for name, value in report["total"].items() if value} == used
    assert (report["from"], report["to"]) == (19_674 * DAY_MS, 19_678 * DAY_MS)


@pytest.mark.parametrize("named", ["ann,bob", ["ann", "bob"], ["ann,", "bob"]])
async def test_several_users_and_virtual_clusters_may_be_named(world: World, named: Any) -> None:
    assert await hours(world, "root", user=named) == {"ann": 10.0, "bob": 4.0}
    assert await hours(world, "root", user=named, vc="vision,none") == {"ann": 8.0, "bob": 4.0}


async def test_a_user_sees_their_own_use_only(world: World) -> None:
    assert await hours(world, "ann") == {"ann": 10.0}
    assert await hours(world, "ann", user=["ann"], vc=["speech"]) == {"ann": 2.0}
    answer = await world.ask("GET", "/reports/use", "ann", params=DAYS | {"user": "bob"})
    assert (answer.status_code, answer.json()["code"]) == (403, "ForbiddenUserError")


async def test_a_manager_sees_the_virtual_clusters_they_manage(world: World) -> None:
    assert await hours(world, "max", by="user,vc") == {"ann/vision": 8.0, "bob/vision": 4.0}
    assert await hours(world, "max", user="bob") == {"bob": 4.0}
    assert await hours(world, "max", vc="speech") == {}


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ("vc", {"speech": 3.0, "vision": 12.0}),
        ("day", {"2023-11-14": 10.0, "2023-11-15": 5.0}),
        ("day,vc", {"2023-11-14/vision": 10.0, "2023-11-15/speech": 3.0, "2023-11-15/vision": 2.0}),
    ],
)
async def test_hours_are_added_up_by_what_was_asked_for(world: World, by: str, message: dict[str, float]) -> None:
    assert await hours(world, "root", by=by) == message
    assert await hours(world, "root", by=by.split(",")) == message


async def test_hours_of_a_user_in_two_groups_count_in_both_and_once_in_the_total(world: World) -> None:
    held = Held("mia", "vision", NOON_MS, NOON_MS + HOUR_MS, gpus=1)
    await run(world.database, held, first=100)
    assert await hours(world, "root", by="group") == {"": 1.0, "default": 15.0, "lab": 1.0}
    report = await world.get("/reports/use", "root", by="group", **DAYS)
    assert report["total"]["gpuHours"] == 16.0


async def test_a_manager_learns_no_groups_that_do_not_concern_their_virtual_cluster(world: World) -> None:
    await run(world.database, Held("mia", "vision", NOON_MS, NOON_MS + HOUR_MS, gpus=1), first=100)
    assert await hours(world, "max", by="user,group") == {"ann/": 8.0, "bob/": 4.0, "mia/lab": 1.0}


async def test_the_default_period_is_the_current_month_until_now(world: World) -> None:
    report = await world.get("/reports/use", "ann")
    assert (report["from"], report["to"], report["by"]) == (19_662 * DAY_MS, world.clock.at_ms, ["user"])
    assert report["total"]["gpuHours"] == 10.0


async def test_what_still_runs_counts_until_now_and_not_beyond(world: World) -> None:
    await run(world.database, Held("root", "vision", NOON_MS + DAY_MS, None, gpus=1), first=100)
    assert (await hours(world, "root", to=str(NOON_MS + 90 * DAY_MS)))["root"] == 24.0


async def lent(world: World, user: str, by: str) -> dict[str, tuple[float, float]]:
    report = (await world.ask("GET", "/reports/use", user, params=DAYS | {"by": by})).json()
    rows = {row.get("virtualCluster", row.get("user")): row for row in report["rows"]} | {"total": report["total"]}
    return {name: (row["gpuHoursBorrowed"], row["gpuHoursLent"]) for name, row in rows.items()}


async def test_lent_hours_are_those_of_a_virtual_cluster_and_borrowed_ones_those_of_a_user(world: World) -> None:
    rows = (LentUse("speech", "ann", borrowed_gpu_ms=2 * HOUR_MS), LentUse("vision", lent_gpu_ms=HOUR_MS))
    await SqlUsageStore(world.database).add_lent_use(rows, NOON_MS, None)
    assert await lent(world, "root", "vc") == {"speech": (2.0, 0.0), "vision": (0.0, 1.0), "total": (2.0, 1.0)}
    by_user = {"=eve": (0.0, 0.0), "ann": (2.0, 0.0), "bob": (0.0, 0.0), "total": (2.0, 1.0)}
    assert await lent(world, "root", "user") == by_user
    # A manager of vision sees what it lent, users only what they borrowed.
    assert await lent(world, "max", "vc") == {"vision": (0.0, 1.0), "total": (0.0, 1.0)}
    assert await lent(world, "ann", "vc") == {"speech": (2.0, 0.0), "vision": (0.0, 0.0), "total": (2.0, 0.0)}


async def test_moves_count_for_the_user_and_the_virtual_cluster_of_the_job_that_was_moved(world: World) -> None:
    rows = (LentUse("speech", "ann", jobs_moved=2, moved_gpu_ms=HOUR_MS / 2),)
    await SqlUsageStore(world.database).add_lent_use(rows, NOON_MS, None)
    for user, by, name in (("root", "user", "ann"), ("root", "vc", "speech"), ("ann", "vc", "speech")):
        report = (await world.ask("GET", "/reports/use", user, params=DAYS | {"by": by})).json()
        (row,) = [row for row in report["rows"] if name in row.values()]
        assert (row["jobsMoved"], row["gpuHoursMoved"]) == (2, 0.5)
        assert (report["total"]["jobsMoved"], report["total"]["gpuHoursMoved"]) == (2, 0.5)
    report = (await world.ask("GET", "/reports/use", "max", params=DAYS | {"by": "vc"})).json()
    assert report["total"]["jobsMoved"] == 0


async def test_wasted_hours_are_the_idle_the_failed_and_the_preempted_ones(world: World) -> None:
    wasted = {"idle_gpu_ms": HOUR_MS / 2, "failed_gpu_ms": 2.0 * HOUR_MS, "preempted_gpu_ms": 1.0 * HOUR_MS}
    await SqlUsageStore(world.database).add_lent_use([LentUse("vision", "ann", **wasted)], NOON_MS, None)
    for user, by, name in (("root", "user", "ann"), ("max", "vc", "vision"), ("ann", "user", "ann")):
        report = (await world.ask("GET", "/reports/use", user, params=DAYS | {"by": by})).json()
        (row,) = [row for row in report["rows"] if name in row.values()]
        for each in (row, report["total"]):
            assert (each["gpuHoursIdle"], each["gpuHoursFailed"], each["gpuHoursPreempted"]) == (0.5, 2.0, 1.0)
            assert each["gpuHoursWasted"] == 3.5


async def test_a_spreadsheet_gets_a_table_with_a_total_and_without_formulas(world: World) -> None:
    for how in ({"params": DAYS | {"format": "csv"}}, {"params": DAYS, "headers": {"Accept": "text/csv"}}):
        answer = await world.ask("GET", "/reports/use", "root", **how)
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        assert answer.headers["content-disposition"] == 'attachment; filename="use.csv"'
        rows = list(csv.reader(io.StringIO(answer.text)))
        assert rows == [
            [
                *("user", "gpuHours", "cpuHours", "memoryGbHours", "taskAttempts", "gpuHoursBorrowed", "gpuHoursLent"),
                *(
                    "jobsMoved",
                    "gpuHoursMoved",
                    "gpuHoursIdle",
                    "gpuHoursFailed",
                    "gpuHoursPreempted",
                    "gpuHoursWasted",
                ),
            ],
            ["'=eve", "1.0", "2.0", "1.0", "1", "0.0", "0.0", "0", *["0.0"] * 5],
            ["ann", "10.0", "20.0", "6.0", "2", "0.0", "0.0", "0", *["0.0"] * 5],
            ["bob", "4.0", "4.0", "2.0", "1", "0.0", "0.0", "0", *["0.0"] * 5],
            ["total", "15.0", "26.0", "9.0", "4", "0.0", "0.0", "0", *["0.0"] * 5],
        ]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"by": "month"}, "'month' is none of day, user, group, vc"),
        ({"from": "2023-13-01"}, "from: give milliseconds since 1970, or a day such as"),
        ({"to": "yesterday"}, "to: give milliseconds since 1970, or a day such as"),
        ({"from": ""}, "from: give milliseconds"),
        ({"from": "٢٠٢٣-11-13"}, "from: give milliseconds"),
        ({"from": "2023-11-17", "to": "2023-11-13"}, "would end on 2023-11-13, before it begins on 2023-11-17"),
        ({"from": "0"}, "from 1970-01-01 to 2023-11"),
        ({"to": "999999999999999"}, "to 999999999999999 ms are more than three years"),
        ({"format": "xml"}, "format"),
    ],
)
async def test_a_report_that_cannot_be_made_is_refused(world: World, asked: dict[str, str], message: str) -> None:
    answer = await world.ask("GET", "/reports/use", "root", params=asked)
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidParametersError"), answer.text
    assert message in answer.json()["message"]


async def test_a_long_report_is_written_while_others_have_their_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces: list[Any] = []
    writers: list[threading.Thread] = []
    encode, report_csv = answers._encode, shapes.report_csv
    monkeypatch.setattr(answers, "_ROWS_AT_ONCE", 2)
    monkeypatch.setattr(answers, "_encode", lambda document: pieces.append(document) or encode(document))
    monkeypatch.setattr(shapes, "report_csv", lambda *of: writers.append(threading.current_thread()) or report_csv(*of))
    report = await world.get("/reports/use", "root", **DAYS, by="user,day")
    assert len(report["rows"]) == 5
    assert [len(piece) for piece in pieces if isinstance(piece, list)] == [2, 2, 1]
    assert "rows" not in pieces[0]
    await world.ask("GET", "/reports/use", "root", params=DAYS | {"format": "csv"})
    assert threading.main_thread() not in writers
    assert len(writers) == 1


async def test_the_weekly_report_is_for_managers_and_administrators(world: World) -> None:
    await SqlUsageStore(world.database).add_lent_use(
        [LentUse(name, "ann", idle_gpu_ms=HOUR_MS) for name in ("vision", "speech")],
        world.clock.at_ms - 7 * DAY_MS,
        None,
    )
    of_max = await world.get("/reports/weekly", "max")
    assert of_max["subject"].startswith("GPU hours of vision in the week of")
    assert "Virtual cluster speech" not in of_max["text"]
    assert "Virtual cluster speech" in (await world.get("/reports/weekly", "root"))["text"]
    answer = await world.ask("GET", "/reports/weekly", "ann")
    assert (answer.status_code, answer.json()["code"]) == (403, "ForbiddenUserError")
