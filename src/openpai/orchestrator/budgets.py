"""The pass that warns of budgets in GPU hours, and ends what may not run on once one is used up.

New jobs are refused by the store, in the transaction that would add them. This pass sends each warning once in a
period, notes on each job that it will be stopped, and stops it when the notice is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from openpai.access.accounts import User
from openpai.access.budgets import Budget, Kind, Stops, in_words, reached, renewal, state_at, whom_to_ask
from openpai.lifecycle.facts import StopRequested
from openpai.orchestrator.changes import JobUpdate, Remark
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.recording import change_jobs
from openpai.ports.alerts import Changes, Message
from openpai.ports.store import Event, JobRecord
from openpai.ports.usage import AuditEntry, BudgetUse
from openpai.protocol.wording import exact

EVERY_S: Final = 60.0
STOPPED_AT_ONCE: Final = 200
_BY: Final = "platform"
_MINUTE_MS: Final = 60_000


@dataclass(slots=True)
class BudgetWatch:
    """What this leader remembers."""

    noted: set[tuple[str, int]] = field(default_factory=set)
    """The jobs whose users were notified that they will be stopped, each with that time."""


async def watch_budgets(leader: Leader, watch: BudgetWatch) -> None:
    """Look at all budgets once."""
    if leader.usage is None:
        return
    now_ms = leader.clock.now_ms()
    # A clock that jumps forward must not use up a budget, nor cut a notice short.
    counted_ms = min(now_ms, leader.steady.now_ms())
    found = await leader.usage.budgets(counted_ms)
    users = await _users(leader) if found else {}
    noted: set[tuple[str, int]] = set()
    for use in found:
        at_ms = await _state(leader, use, users, counted_ms)
        if at_ms is None or use.budget.stops is Stops.NONE:
            continue
        ends_ms = at_ms + round(use.budget.notice_minutes * _MINUTE_MS)
        jobs = tuple(_jobs(leader, use.budget, users))
        noted |= {(record.job.id, ends_ms) for record in jobs}
        if counted_ms >= ends_ms:
            await _stop(leader, use, jobs[:STOPPED_AT_ONCE], now_ms)
        else:
            new = [record for record in jobs if (record.job.id, ends_ms) not in watch.noted]
            await _give_notice(leader, use, new[:STOPPED_AT_ONCE], now_ms, left_ms=ends_ms - counted_ms)
    watch.noted = noted


async def _users(leader: Leader) -> Mapping[str, User]:
    parts = leader.alert_parts
    return {user.name: user for user in await parts.users.users()} if parts is not None else {}


async def _state(leader: Leader, use: BudgetUse, users: Mapping[str, User], now_ms: int) -> int | None:
    """Send a warning that is due, and return since when the budget is used up."""
    budget = use.budget
    before, share = state_at(budget, now_ms), reached(budget, use.hours)
    used_up_at_ms = (now_ms if before.used_up_at_ms is None else before.used_up_at_ms) if share >= 1 else None
    after = replace(before, warned=share, used_up_at_ms=used_up_at_ms)
    if share > before.warned:
        # The message first: one that is lost is worse than one that is sent twice, and its key tells them apart.
        await _warn(leader, use, users, now_ms)
    if after != budget.state and leader.usage is not None:
        await leader.usage.set_budget_state(budget, after, leader.epoch)
    return used_up_at_ms


async def _warn(leader: Leader, use: BudgetUse, users: Mapping[str, User], now_ms: int) -> None:
    parts, budget = leader.alert_parts, use.budget
    if parts is None:
        return
    mail = next((each.name for each in await parts.store.channels() if each.kind == "mail"), "")
    to = recipients(budget, users)
    if not mail or not to:
        return
    share = reached(budget, use.hours)
    word = "is used up" if share >= 1 else f"is used to {exact(share * 100)} %"
    state = state_at(budget, now_ms)
    key = f"budget/{'/'.join(budget.key)}/{exact(budget.gpu_hours)}/{state.since_ms}/{exact(share)}"
    lines = [f"{in_words(budget, use.hours)}; {renewal(budget, now_ms)}."]
    if share >= 1:
        lines.append(f"New jobs that ask for GPUs are refused.{_what_stops(budget)}")
    lines += [f"For more, {whom_to_ask(budget)}.", "", "next: pai budget list"]
    message = Message(key[:255], f"the budget of {budget.label} {word}", "\n".join(lines), to=to)
    await parts.store.save(Changes(notices=[(mail, message)]), now_ms, leader.epoch)


def recipients(budget: Budget, users: Mapping[str, User]) -> tuple[str, ...]:
    """Return the addresses of a budget's user, of the managers of its virtual cluster, or of administrators."""
    if budget.kind is Kind.USER:
        found = [user for name, user in users.items() if name == budget.name]
    elif budget.kind is Kind.VC:
        found = [user for user in users.values() if any(budget.name in group.managed for group in user.groups)]
    else:
        found = []
    to = [user.email for user in found if user.email]
    return tuple(sorted(to or [user.email for user in users.values() if user.is_admin and user.email]))


def _what_stops(budget: Budget) -> str:
    if budget.stops is Stops.NONE:
        return " Jobs that were accepted go on."
    which = "Opportunistic jobs" if budget.stops is Stops.OPPORTUNISTIC else "All jobs"
    return f" {which} with GPUs that wait or run are stopped in {_minutes(budget.notice_minutes)}."


def _minutes(count: float) -> str:
    return f"{exact(count)} minute{'' if count == 1 else 's'}"


def _jobs(leader: Leader, budget: Budget, users: Mapping[str, User]) -> Iterator[JobRecord]:
    """Yield the jobs that a used-up budget stops."""
    for record in leader.active.records.values():
        is_over = record.job.is_final or record.job.is_stop_requested
        is_meant = budget.stops is Stops.ALL or record.priority < 0
        if not is_over and is_meant and record.spec.gpus_total and _counts(budget, record, users):
            yield record


def _counts(budget: Budget, record: JobRecord, users: Mapping[str, User]) -> bool:
    if budget.kind is Kind.VC:
        return record.virtual_cluster == budget.name
    if budget.kind is Kind.USER:
        return record.user == budget.name
    owner = users.get(record.user)
    return owner is not None and any(group.name == budget.name for group in owner.groups)


async def _give_notice(leader: Leader, use: BudgetUse, jobs: list[JobRecord], now_ms: int, *, left_ms: int) -> None:
    minutes = max(1, round(left_ms / _MINUTE_MS))
    message = f"{_because(use)}; the job is stopped in {_minutes(minutes)}: save its work"
    notes = {
        record.job.id: JobUpdate(
            notes=(Event(record.job.id, now_ms, "BudgetUsedUp", message, record.job.attempt, is_warning=True),)
        )
        for record in jobs
    }
    if notes:
        await change_jobs(leader, notes)


async def _stop(leader: Leader, use: BudgetUse, jobs: tuple[JobRecord, ...], now_ms: int) -> None:
    for record in jobs:
        about = {"budget": "/".join(use.budget.key), "result": _because(use)}
        entry = AuditEntry(now_ms, _BY, "job.stop", record.full_name, record.user, via="budget", detail=about)
        # The entry first: a stop that the log does not have would be worse than one that it has twice.
        if leader.usage is not None:
            await leader.usage.note(entry)
        remark = Remark("BudgetUsedUp", _because(use))
        await change_jobs(
            leader, {record.job.id: JobUpdate((StopRequested(now_ms, _BY, _because(use)),), remark=remark)}
        )


def _because(use: BudgetUse) -> str:
    return f"the budget of {use.budget.label} is used up: {in_words(use.budget, use.hours)}"
