"""The one gate through which every change of a job goes: step, save unless another server was faster, then apply.

`change_job` is for requests, on any server; `change_jobs` and `batch` are for the leader's passes, which change many
jobs in one transaction. What follows from a saved change (devices go back to the scheduler, a gang joins the queue,
the backend has something to do) happens after the commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final

import structlog

from openpai.lifecycle.model import JobPhase
from openpai.orchestrator.applying import apply_saved, release
from openpai.orchestrator.changes import JobUpdate, change_of, tasks_of
from openpai.orchestrator.leader import Leader
from openpai.ports.clock import Clock
from openpai.ports.store import Change, JobRecord, JobStore, LeaseLost, Saved
from openpai.protocol.errors import Unavailable

RACES_MAX: Final = 5
TASKS_AT_ONCE: Final = 1000
"""After a step of more tasks of a job, serve other requests before the next."""
INBOX_PER_PASS: Final = 500
log: Final = structlog.get_logger(__name__)


async def change_job(store: JobStore, clock: Clock, leader: Leader | None, id_: str, update: JobUpdate) -> None:
    """Save what a request changes about a job; a server that does not lead passes the job on through the inbox.

    Raises Unavailable when other changes of the job come first each time, and `BeyondQuota` when quotas forbid it.
    """
    if leader is not None:
        # Another server leads now, and finds the job in its inbox.
        with suppress(LeaseLost):
            async with batch(leader) as changes:
                await changes.add({id_: update}, is_request=True)
                await changes.save()
            return

    async def save_once() -> Collection[str]:
        before = await store.load(id_)
        change = change_of(before, update, clock.now_ms()) if before is not None else None
        is_saved = change is None or await store.save([change], None, notify=True) == (Saved.YES,)
        return () if is_saved else (id_,)

    await _until_saved(save_once)


async def change_jobs(leader: Leader, updates: Mapping[str, JobUpdate]) -> None:
    """Save updates of jobs in one transaction and apply them. Raises Unavailable, and LeaseLost, as `batch` does."""
    async with batch(leader) as changes:
        await changes.add(updates)
        await changes.save()


async def take_inbox(leader: Leader) -> bool:
    """Load the jobs that other servers changed; return whether there may be more."""
    async with _resync_if_unavailable(leader):
        changed = await leader.store.take_inbox(INBOX_PER_PASS, leader.epoch)
        async with leader.gate:
            for id_ in changed:
                await _reload(leader, id_, set())
    return len(changed) == INBOX_PER_PASS


@asynccontextmanager
async def batch(leader: Leader) -> AsyncIterator[Batch]:
    """Open a batch of changes; all other changes wait until it is closed.

    Raises Unavailable when the store does not answer, and LeaseLost, saving nothing, when another server leads.
    """
    async with leader.gate:
        yield Batch(leader)


class Batch:
    """Changes of jobs that the leader saves in one transaction."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        self._updates: dict[str, JobUpdate] = {}
        self._changes: dict[str, Change] = {}
        self._again: dict[str, JobUpdate] = {}
        self._freed: set[tuple[str, int]] = set()
        self._saved: dict[str, JobRecord] = {}

    @property
    def jobs(self) -> Collection[str]:
        """Return the jobs that have something to save."""
        return self._changes.keys()

    async def add(self, updates: Mapping[str, JobUpdate], *, is_request: bool = False) -> None:
        """Derive the changes, and give what they free back to the scheduler. Updates that change nothing are dropped.

        A request is dropped only if the store, which another server may have written to, holds nothing newer either.
        """
        async with _resync_if_unavailable(self._leader):
            for id_, update in updates.items():
                await self._add(id_, update, is_request)

    async def save(self) -> dict[str, JobRecord]:
        """Save the changes and apply them; return each job that changed, as it is now."""
        await _until_saved(self._save_once)
        return self._saved

    async def _add(self, id_: str, update: JobUpdate, is_request: bool) -> None:
        leader = self._leader
        known = leader.active.records.get(id_)
        before = known or await _reload(leader, id_, self._freed)
        change = change_of(before, update, leader.clock.now_ms(), leader.policy) if before is not None else None
        if change is not None:
            if (idle := leader.idle_times.get((id_, change.job_attempt))) is not None:
                change = replace(change, idle=tuple(idle))
            self._updates[id_], self._changes[id_] = update, change
            if len(change.tasks) > TASKS_AT_ONCE:
                await asyncio.sleep(0)
            release(leader, change.before, change.after, self._freed, tasks_of(change))
        elif is_request and known is not None and await self._is_outdated(known):
            self._again[id_] = update

    async def _save_once(self) -> Collection[str]:
        """Save what can be saved; return the jobs that another server changed meanwhile, to be tried again."""
        async with _resync_if_unavailable(self._leader):
            await self._write()
        again, self._again = self._again, {}
        await self.add(again)
        return again

    async def _write(self) -> None:
        leader = self._leader
        changes, self._changes = list(self._changes.values()), {}
        answers = await leader.store.save(changes, leader.epoch) if changes else ()
        for change, saved in zip(changes, answers, strict=True):
            id_ = change.after.job.id
            if saved is Saved.YES:
                self._saved[id_] = change.after
                apply_saved(leader, change.before, change.after, tasks_of(change))
            elif saved is Saved.STALE:
                self._again[id_] = self._updates[id_]
                await _reload(leader, id_, self._freed)
            elif Saved.STALE not in answers:
                # With a stale change in the batch, the device may be one that this change was about to free.
                log.error("a device was granted twice", job=id_, granted=change.granted)
                leader.must_resync = True

    async def _is_outdated(self, known: JobRecord) -> bool:
        stored = await self._leader.store.load(known.job.id)
        if stored is None or stored.version == known.version:
            return False
        await _reload(self._leader, known.job.id, self._freed)
        return True


async def _until_saved(save_once: Callable[[], Awaitable[Collection[str]]]) -> None:
    """Repeat while other servers change the same jobs, at most `RACES_MAX` times."""
    left: Collection[str] = ()
    for _ in range(RACES_MAX):
        left = await save_once()
        if not left:
            return
    raise Unavailable(f"other changes of job {', '.join(left)} came first {RACES_MAX} times", "try again in a moment")


@asynccontextmanager
async def _resync_if_unavailable(leader: Leader) -> AsyncIterator[None]:
    try:
        yield
    except Unavailable:
        # Perhaps the store saved it and only the answer was lost, or it was applied in part.
        leader.must_resync = True
        raise


async def _reload(leader: Leader, id_: str, freed: set[tuple[str, int]]) -> JobRecord | None:
    """Load a job from the store and apply the changes of another server."""
    after = await leader.store.load(id_)
    if after is None:
        return None
    before = leader.active.records.get(id_)
    if before is None:
        before = replace(after, job=replace(after.job, phase=JobPhase.STOPPED, tasks={}), slots={})
    release(leader, before, after, freed)
    apply_saved(leader, before, after)
    return after
