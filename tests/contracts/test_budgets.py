"""Budgets count what runs and what ran, for users, groups and virtual clusters, and refuse what is beyond them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

import pytest

from openpai.access.budgets import Budget, BudgetState, Kind, Period, Stops
from openpai.lifecycle.facts import StartRequested
from openpai.lifecycle.stepping import step
from openpai.orchestrator.changes import build_change
from openpai.ports.store import LeaseLost
from openpai.ports.usage import OverBudget
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore
from openpai.store.schema import memberships
from openpai.store.usage import SqlUsageStore

from .held import SPEC, Held, new, run

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
# 2023-11-13, in the fourth quarter.
MONDAY_MS = 19_675 * DAY_MS
OCTOBER_MS = 19_631 * DAY_MS
SEPTEMBER_MS = 19_630 * DAY_MS


async def in_groups(database: Database, **members: str) -> None:
    rows = [{"member": name, "group_name": group, "position": 0} for name, group in members.items()]
    await database.write(lambda connection: connection.execute(memberships.insert(), rows))


async def hours(database: Database, kind: Kind, name: str, period: Period, now_ms: int = MONDAY_MS) -> float:
    usage = SqlUsageStore(database)
    await usage.set_budget(Budget(kind, name, period, 1e6))
    return next(use.hours for use in await usage.budgets(now_ms) if use.budget.key == (kind, name, period))


async def test_each_period_counts_from_its_beginning_and_what_runs_until_now(database: Database) -> None:
    await run(
        database,
        Held("ann", "vision", SEPTEMBER_MS, SEPTEMBER_MS + HOUR_MS, gpus=100),
        Held("ann", "vision", OCTOBER_MS, OCTOBER_MS + HOUR_MS, gpus=10),
        Held("ann", "vision", MONDAY_MS - 4 * HOUR_MS, MONDAY_MS - 3 * HOUR_MS, gpus=1),
        Held("ann", "vision", MONDAY_MS - 2 * HOUR_MS, None, gpus=2),
    )
    expected = {Period.MONTH: 5.0, Period.QUARTER: 15.0, Period.TOTAL: 115.0}
    for kind, name in ((Kind.USER, "ann"), (Kind.VC, "vision")):
        assert {period: await hours(database, kind, name, period) for period in Period} == expected
    assert await hours(database, Kind.USER, "bob", Period.TOTAL) == 0.0
    # In December the month is new, and in January the quarter; what runs over it counts from then on.
    january_ms = 19_723 * DAY_MS
    assert await hours(database, Kind.USER, "ann", Period.QUARTER, january_ms + HOUR_MS) == 2.0


@pytest.mark.parametrize("seed", range(3))
async def test_users_and_virtual_clusters_add_up_to_what_was_held(database: Database, seed: int) -> None:
    chance = Random(seed)
    users, clusters = ("ann", "bob", "eve"), ("vision", "speech")
    all_held = [
        Held(
            chance.choice(users), chance.choice(clusters),
            began_ms := MONDAY_MS - chance.randrange(1, 100) * DAY_MS,
            None if chance.random() < 0.2 else began_ms + chance.randrange(1, 90) * HOUR_MS,
            gpus=chance.randrange(0, 5),
        )
        for _ in range(12)
    ]  # fmt: skip
    await run(database, *all_held)
    await in_groups(database, ann="lab", bob="lab")
    in_all = sum(each.gpus * ((each.to_ms or MONDAY_MS) - each.from_ms) for each in all_held) / HOUR_MS
    of_users = {name: await hours(database, Kind.USER, name, Period.TOTAL) for name in users}
    of_clusters = [await hours(database, Kind.VC, name, Period.TOTAL) for name in clusters]
    assert sum(of_users.values()) == pytest.approx(in_all)
    assert sum(of_clusters) == pytest.approx(in_all)
    lab = await hours(database, Kind.GROUP, "lab", Period.TOTAL)
    assert lab == pytest.approx(of_users["ann"] + of_users["bob"])


@pytest.mark.parametrize("kind", list(Kind))
async def test_a_used_up_budget_refuses_new_jobs_with_gpus_only(database: Database, kind: Kind) -> None:
    store, usage = SqlJobStore(database), SqlUsageStore(database)
    await in_groups(database, ann="lab")
    await run(database, Held("ann", "vision", MONDAY_MS, MONDAY_MS + 2 * HOUR_MS))
    name = {Kind.USER: "ann", Kind.GROUP: "lab", Kind.VC: "vision"}[kind]
    await usage.set_budget(Budget(kind, name, Period.MONTH, 2.0))
    later = Held("ann", "vision", MONDAY_MS + 3 * HOUR_MS, None)
    with pytest.raises(OverBudget) as refused:
        await store.add_job(new(10, later), None)
    assert (refused.value.budget.name, refused.value.gpu_hours) == (name, 2.0)
    await store.add_job(new(11, replace(later, gpus=0)), None)
    await store.add_job(new(12, replace(later, user="bob", virtual_cluster="speech")), None)
    await store.add_job(new(13, replace(later, from_ms=MONDAY_MS + 30 * DAY_MS)), None)  # in December
    await usage.set_budget(Budget(kind, name, Period.MONTH, 2.5))
    await store.add_job(new(14, later), None)


async def test_of_many_submissions_at_once_none_gets_past_a_used_up_budget(database: Database) -> None:
    store, usage = SqlJobStore(database), SqlUsageStore(database)
    await run(database, Held("ann", "vision", MONDAY_MS, None, gpus=4))
    await usage.set_budget(Budget(Kind.VC, "vision", Period.QUARTER, 4.0))
    # The running job has used the last hour one hour after its start.
    at_ms = (MONDAY_MS + HOUR_MS - 1, MONDAY_MS + HOUR_MS)
    jobs = [new(number, Held(f"u{number}", "vision", at_ms[number % 2], None)) for number in range(10, 30)]
    results = await asyncio.gather(*(store.add_job(job, None) for job in jobs), return_exceptions=True)
    refused = [job.record.job.submitted_at_ms for job, result in zip(jobs, results, strict=True) if result]
    assert refused == [at_ms[1]] * 10
    assert all(result is None or isinstance(result, OverBudget) for result in results)


async def test_a_finished_job_does_not_run_again_beyond_a_budget(database: Database) -> None:
    store, usage = SqlJobStore(database), SqlUsageStore(database)
    (id_,) = await run(database, Held("ann", "vision", MONDAY_MS, MONDAY_MS + 2 * HOUR_MS))
    await usage.set_budget(Budget(Kind.USER, "ann", Period.TOTAL, 2.0))
    record = await store.load(id_)
    assert record is not None
    assert record.spec.gpus_total == SPEC.gpus_total > 0
    again = build_change(record, step(record.job, [StartRequested(MONDAY_MS + 3 * HOUR_MS, "ann", "")]), {}, MONDAY_MS)
    with pytest.raises(OverBudget):
        await store.save([again], None)
    assert await store.load(id_) == record


async def test_a_budget_is_remembered_replaced_and_forgotten_and_its_state_stays(database: Database) -> None:
    usage, jobs = SqlUsageStore(database), SqlJobStore(database)
    first = Budget(Kind.GROUP, "lab", Period.MONTH, 10.5, (0.5, 0.9), Stops.ALL, 30.0, "Zoë, room 5")
    await usage.set_budget(first)
    epoch = await jobs.lease("a/1", 0, 15_000)
    state = BudgetState(5, 0.9, 77)
    await usage.set_budget_state(first, state, epoch)
    await usage.set_budget(replace(first, gpu_hours=11.0))
    (found,) = await usage.budgets(MONDAY_MS)
    assert (found.budget, found.budget.state) == (replace(first, gpu_hours=11.0), state)
    await jobs.lease("a/2", 0, 15_000)
    with pytest.raises(LeaseLost):
        await usage.set_budget_state(first, BudgetState(), epoch)
    assert await usage.remove_budget(Kind.GROUP, "lab", Period.MONTH)
    assert not await usage.remove_budget(Kind.GROUP, "lab", Period.MONTH)


async def test_a_user_is_concerned_by_budgets_of_their_own_their_groups_and_virtual_clusters(
    database: Database,
) -> None:
    usage = SqlUsageStore(database)
    await in_groups(database, ann="lab", bob="others")
    for kind, names in ((Kind.USER, "ann bob"), (Kind.GROUP, "lab others"), (Kind.VC, "vision speech")):
        for name in names.split():
            await usage.set_budget(Budget(kind, name, Period.MONTH, 1.0))
    found = await usage.budgets_of("ann", ["vision"], MONDAY_MS)
    assert [use.budget.name for use in found] == ["lab", "ann", "vision"]
    assert [use.budget.name for use in await usage.budgets_of("eve", [], MONDAY_MS)] == []
