"""The pass that says what is kept of the files that tasks left, and what of it is removed; and the limit of each user.

What a user's tasks left may take so much space together; of more, the oldest is removed. Each job whose files are kept
or removed has an event that says so, one for all of its tasks that are found at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from openpai.lifecycle.model import AttemptKey
from openpai.orchestrator.changes import JobUpdate
from openpai.orchestrator.leader import KeptLimit, Leader
from openpai.orchestrator.recording import change_jobs
from openpai.ports.backend import TaskStep
from openpai.ports.kept_work import KeptAttempt, KeptWork
from openpai.ports.queries import JobQueries
from openpai.ports.store import Event
from openpai.protocol.errors import Refused

EVERY_S: Final = 5.0
COUNTED_PER_PASS: Final = 500
KEPT: Final = "FilesKept"
REMOVED: Final = "FilesRemoved"
_NAMED: Final = 5
_SLACK_MS: Final = 60_000
_MISSED_AFTER_MS: Final = 30_000
"""How long after a job's end its outputs are missed: they are moved, or fetched, after the end of each task."""
_GIB: Final = 1 << 30


@dataclass(slots=True)
class KeptWatch:
    """What is known of the files that tasks left."""

    known: dict[AttemptKey, KeptAttempt] = field(default_factory=dict)
    """What is kept, the oldest first."""
    users: dict[str, str] = field(default_factory=dict)
    """By job, its owner."""
    has_looked: bool = False


async def watch_kept_work(leader: Leader, watch: KeptWatch) -> None:
    """Look once at what is kept."""
    if (kept := leader.kept) is None:
        return
    found = await kept.work.all()
    gone = [watch.known.pop(key) for key in watch.known.keys() - found.keys()]
    new: list[KeptAttempt] = []
    for key in islice((key for key in found if key not in watch.known), COUNTED_PER_PASS):
        if (counted := await kept.work.count(key)) is not None:
            watch.known[key] = counted
            new.append(counted)
    await _name_users(kept.queries, watch)
    if not watch.has_looked:
        new = [one for one in new if not await _is_recorded(kept.queries, one.key, found[one.key])]
    watch.has_looked = len(watch.known) >= len(found)
    now_ms = leader.clock.now_ms()
    await _say(leader, new, KEPT, "are kept until {until}: pai job fetch")
    expired = [one for one in gone if one.kept_until_ms <= now_ms + _SLACK_MS]
    await _say(leader, expired, REMOVED, "were removed: they were kept until {until}")
    others = [one for one in gone if one not in expired]
    await _say(leader, others, REMOVED, "were removed: the platform's disk was almost full")
    await _miss_outputs(leader, kept)
    await _keep_limits(leader, kept, watch)


async def _miss_outputs(leader: Leader, kept: KeptLimit) -> None:
    """Write an event of each job that succeeded, named outputs and left none of them."""
    now_ms = leader.clock.now_ms()
    due = leader.active.outputs_due
    for job in [job for job, each in due.items() if now_ms - each.since_ms >= _MISSED_AFTER_MS]:
        attempt, outputs, _ = due.pop(job)
        keys = [one.key for one in await kept.work.of_job(job) if one.key.job_attempt == attempt]
        if not any([await _is_any_kept(kept.work, key, outputs) for key in keys]):
            names = ", ".join(outputs[:_NAMED]) + (", ..." if len(outputs) > _NAMED else "")
            why = kept.why_none or "its tasks wrote none to the directory where they start, or to PAI_WORK_DIR"
            message = f"none of the job's outputs is kept ({names}): {why}"
            event = Event(job, now_ms, TaskStep.FILES_LOST.value, message, attempt, is_warning=True)
            await change_jobs(leader, {job: JobUpdate(notes=(event,))})


async def _is_any_kept(work: KeptWork, key: AttemptKey, outputs: Sequence[str]) -> bool:
    try:
        await work.archive(key, outputs)
    except Refused:
        return False
    return True


async def _keep_limits(leader: Leader, kept: KeptLimit, watch: KeptWatch) -> None:
    """Remove the oldest of what users keep beyond their limit."""
    if not kept.user_bytes_max:
        return
    by_user: dict[str, list[KeptAttempt]] = {}
    for one in sorted(watch.known.values(), key=lambda one: one.kept_until_ms):
        by_user.setdefault(watch.users.get(one.key.job, ""), []).append(one)
    for user, those in by_user.items():
        total = sum(one.bytes for one in those)
        going: list[KeptAttempt] = []
        for one in those:
            if not user or total <= kept.user_bytes_max:
                break
            going.append(one)
            total -= one.bytes
        for one in going:
            await kept.work.discard(one.key)
            watch.known.pop(one.key, None)
        most = f"of user {user} at most {kept.user_bytes_max / _GIB:g} GiB are kept, the newest files"
        await _say(leader, going, REMOVED, f"were removed: {most}; write what must last to a storage")


async def _say(leader: Leader, those: Iterable[KeptAttempt], reason: str, what: str) -> None:
    """Write an event of each job attempt to which some of these belong."""
    by_attempt: dict[tuple[str, int], list[KeptAttempt]] = {}
    for one in those:
        by_attempt.setdefault((one.key.job, one.key.job_attempt), []).append(one)
    now_ms = leader.clock.now_ms()
    for (job, attempt), some in by_attempt.items():
        until = datetime.fromtimestamp(max(one.kept_until_ms for one in some) / 1000, UTC)
        message = f"{_left(some)} {what.format(until=until.strftime('%Y-%m-%d %H:%M UTC'))}"
        key = some[0].key if len(some) == 1 else None
        event = Event(job, now_ms, reason, message, attempt, key, is_warning=reason == REMOVED)
        await change_jobs(leader, {job: JobUpdate(notes=(event,))})


def _left(those: Sequence[KeptAttempt]) -> str:
    names = ", ".join(f"{one.key.role}-{one.key.index}" for one in those[:_NAMED])
    names += f" and {len(those) - _NAMED} others" if len(those) > _NAMED else ""
    files, size = sum(one.files for one in those), sum(one.bytes for one in those)
    return f"the files that {names} left ({files:,}, with {size:,} bytes)"


async def _name_users(queries: JobQueries, watch: KeptWatch) -> None:
    jobs = {key.job for key in watch.known}
    watch.users = {job: user for job, user in watch.users.items() if job in jobs}
    for job in jobs - watch.users.keys():
        row = await queries.job_of_id(job)
        watch.users[job] = row.user if row is not None else ""


async def _is_recorded(queries: JobQueries, key: AttemptKey, since_ms: int) -> bool:
    """Return whether an earlier server said that these files are kept."""
    events = await queries.events(key.job, reason=KEPT)
    return any(each.event.job_attempt == key.job_attempt and each.event.at_ms >= since_ms for each in events)
