"""Jobs that wait for other jobs: checked at submission, released or ended by the leader.

The leader remembers which held jobs to look at: those that wait for a job that has just ended, all of them after a
takeover, and again with each audit, because another server may have deleted a job. Nothing of that is stored: the phase
of a job says that it is held, and its specification what for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

from openpai.access.deciding import refusal
from openpai.access.model import thing_of
from openpai.lifecycle.dependencies import Met, judge, met, never
from openpai.lifecycle.facts import DependencyMissed, Fact, Released
from openpai.lifecycle.model import JobPhase
from openpai.orchestrator.admission import is_admitted, waits_for_admission
from openpai.orchestrator.changes import JobUpdate
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.recording import change_jobs
from openpai.orchestrator.sweeps import Turns, key_of, limit_of, waiting_name
from openpai.ports.platform import Submitter
from openpai.ports.store import JobRecord, JobStore
from openpai.protocol.dependencies import Dependency, dependencies_of
from openpai.protocol.errors import Fault, InvalidProtocol
from openpai.protocol.job import JobSpec
from openpai.protocol.sweeps import membership_of
from openpai.scheduler.model import Wait, Why

HELD_PER_PASS: Final = 500


async def with_dependencies(spec: JobSpec, by: Submitter, store: JobStore) -> JobSpec:
    """Return the job with the ids of the jobs it waits for.

    Raises InvalidProtocol for a job that the submitter may not see, the job itself, and one that ended otherwise.
    """
    after = dependencies_of(spec, by.user)
    if not after:
        return spec
    found: list[Dependency] = []
    faults: list[Fault] = []
    for number, wanted in enumerate(after):
        fault = await _resolve(spec, by, store, wanted, found)
        if fault:
            faults.append(Fault(f"extras.after.{number}", *fault))
    if faults:
        raise InvalidProtocol(tuple(faults))
    return replace(spec, extras={**spec.extras, "after": [one.as_entry() for one in found]})


async def _resolve(
    spec: JobSpec, by: Submitter, store: JobStore, wanted: Dependency, found: list[Dependency]
) -> tuple[str, None, str] | None:
    """Add the dependency with its id to `found`, or return what is wrong with it and what to do."""
    if (wanted.user, wanted.name) == (by.user, spec.name):
        return "a job cannot wait for itself", None, "the name of another job"
    id_ = await store.find(wanted.user, wanted.name)
    record = await store.load(id_) if id_ is not None else None
    if record is None or not _may_see(by, record):
        return f"there is no job {wanted.full_name} that you may see", None, "a job that `pai job list` shows"
    if met(wanted, record.job.phase) is Met.NEVER:
        message = never(wanted, record.job.phase)
        return message, None, f"start that one again first (pai job start {wanted.full_name}), or `until: ended`"
    found.append(replace(wanted, id=record.job.id))
    return None


def _may_see(by: Submitter, record: JobRecord) -> bool:
    if by.principal is None:
        return record.user == by.user and record.job.submitted_at_ms >= by.since_ms
    return refusal(by.principal, "job.read", thing_of(record)) is None


async def release_held(leader: Leader) -> bool:
    """Queue held jobs whose wait is over, and end those that wait in vain; return whether there are more to look at."""
    active = leader.active
    chosen = list(islice(active.held_to_check, HELD_PER_PASS))
    held = [found for id_ in chosen if (found := active.records.get(id_)) is not None and _is_held(found)]
    after = {found.job.id: dependencies_of(found.spec, found.user) for found in held}
    phases = await _phases(leader, {one.id for wanted in after.values() for one in wanted})
    now_ms = leader.clock.now_ms()
    turns = Turns(leader, held)
    updates: dict[str, JobUpdate] = {}
    for found in sorted(held, key=_order):
        id_, wanted = found.job.id, after[found.job.id]
        judgement = judge(wanted, phases)
        if judgement.in_vain:
            fact: Fact = DependencyMissed(now_ms, judgement.in_vain[0])
        elif judgement.is_released and is_admitted(leader, found) and turns.take(found):
            fact = Released(now_ms)
        else:
            key = key_of(found)
            active.wait(id_, [*[one.id for one in wanted], *([waiting_name(key)] if key is not None else [])])
            continue
        updates[id_] = JobUpdate((fact,))
    # What is added from now on is looked at again.
    for id_ in chosen:
        active.held_to_check.pop(id_, None)
    try:
        if updates:
            await change_jobs(leader, updates)
    except BaseException:
        active.held_to_check.update(dict.fromkeys(chosen))
        raise
    return bool(active.held_to_check)


def look_again(leader: Leader) -> None:
    """Look at every held job again, also at those whose dependency another server deleted."""
    held = [id_ for id_, found in leader.active.records.items() if _is_held(found)]
    if held:
        leader.active.held_to_check.update(dict.fromkeys(held))
        leader.nudges.work.set()


def _order(found: JobRecord) -> tuple[int, str, int]:
    member = membership_of(found.spec.extras)
    if member is None:
        return found.job.submitted_at_ms, found.job.id, 0
    return found.job.submitted_at_ms, member.sweep, member.number


async def waits_for(leader: Leader, found: JobRecord) -> tuple[Wait, ...]:
    """Return which jobs a held job waits for, and which queue."""
    after = dependencies_of(found.spec, found.user)
    judgement = judge(after, await _phases(leader, {one.id for one in after}))
    advice = "that job ending; without waiting for it, submit this job without `after`"
    name = f"{found.job.id}/{found.job.attempt}"
    waits = [Wait(name, Why.WAITS_FOR_JOB, message, advice) for message in judgement.waits_for]
    if judgement.is_released:
        waits += waits_for_admission(leader, found)
    if limit := limit_of(found):
        member = membership_of(found.spec.extras)
        message = f"sweep {member.sweep if member else ''} runs {limit} of its jobs at a time"
        waits.append(Wait(name, Why.WAITS_FOR_JOB, message, "other jobs of the sweep ending"))
    return tuple(waits)


async def _phases(leader: Leader, ids: Iterable[str]) -> Mapping[str, JobPhase]:
    records = leader.active.records
    known = {id_: records[id_].job.phase for id_ in ids if id_ in records}
    return {**known, **await leader.store.phases([id_ for id_ in ids if id_ not in known])}


def _is_held(found: JobRecord) -> bool:
    return found.job.phase is JobPhase.HELD
