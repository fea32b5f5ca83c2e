"""Which jobs changed, for pages that are open: one look at the event log for all readers of this server.

A position is the number of an event, so a reader continues at any server and after a restart. A reader learns the names
of jobs that it may read; that others changed, which the list of jobs shows to everybody, it learns without their names.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from itertools import islice
from typing import Final

from openpai.access.deciding import refusal
from openpai.access.model import thing_of
from openpai.api.answers import encoded
from openpai.api.services import Services
from openpai.api.sessions import Caller
from openpai.api.sse import KEEP_ALIVE
from openpai.ports.queries import ChangedJob, JobQueries
from openpai.protocol.errors import Refused, Unavailable
from openpai.wire.job_events import JobChanges

LOOK_S: Final = 0.1
READ_MAX: Final = 1_000
NAMED_MAX: Final = 200
KEPT_MAX: Final = 4_096
READERS_PER_USER: Final = 100
# Servers that share PostgreSQL commit their events in another order than they number them.
OVERLAP: Final = 64


class ChangeFeed:
    """The newest changes, read from the event log while they are followed."""

    def __init__(self, jobs: JobQueries) -> None:
        self._jobs = jobs
        self._kept: deque[ChangedJob] = deque(maxlen=KEPT_MAX)
        self._count = 0
        """Grows by one with each change, and by more than is kept with a gap."""
        self._seen: set[int] = set()
        """The numbers of the events of the last look."""
        self._looking: asyncio.Task[None] | None = None
        self.newest = 0
        """The number of the newest event."""
        self.readers: Counter[str] = Counter()

    async def begin(self) -> int:
        """Return the position of a reader that wants what comes from now on."""
        await self._look()
        return self._count

    async def wait(self) -> None:
        """Wait for the next look, which all readers share."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look_later())
        await asyncio.shield(self._looking)

    def since(self, position: int) -> tuple[int, list[ChangedJob] | None]:
        """Return the position now, and the changes after another one; None if they are not kept any more."""
        new = self._count - position
        found = list(islice(self._kept, len(self._kept) - new, None)) if new <= len(self._kept) else None
        return self._count, found

    async def _look_later(self) -> None:
        await asyncio.sleep(LOOK_S)
        await self._look()

    async def _look(self) -> None:
        found = await self._jobs.changes(max(self.newest - OVERLAP, 0), READ_MAX)
        if found.newest < self.newest or len(found.jobs) == READ_MAX:
            # The first look; too many changes; or the newest job was deleted, whose numbers are used again.
            found = await self._jobs.changes(max(found.newest - OVERLAP, 0), READ_MAX)
            self._kept.clear()
            self._count += KEPT_MAX + 1
        else:
            new = [one for one in found.jobs if one.id not in self._seen]
            self._kept.extend(new)
            self._count += len(new)
        self._seen = {one.id for one in found.jobs}
        self.newest = found.newest


async def changed_jobs(jobs: JobQueries, caller: Caller, after: int | None) -> JobChanges:
    """Return what changed after the event of a number."""
    if after is None:
        newest = (await jobs.changes(2**53, 0)).newest
        return JobChanges(next=newest, jobs=[], others=False, complete=False)
    found = await jobs.changes(after, READ_MAX)
    if len(found.jobs) == READ_MAX or found.newest < after:
        return JobChanges(next=found.newest, jobs=[], others=False, complete=False)
    return _document(caller, found.newest, found.jobs)


def _document(caller: Caller, newest: int, changed: Iterable[ChangedJob]) -> JobChanges:
    named = {(one.user, one.name): one for one in changed}
    shown = [f"{user}~{name}" for (user, name), one in named.items() if _may_read(caller, one)]
    if len(shown) > NAMED_MAX:
        return JobChanges(next=newest, jobs=[], others=False, complete=False)
    return JobChanges(next=newest, jobs=shown, others=len(shown) < len(named), complete=True)


def _may_read(caller: Caller, one: ChangedJob) -> bool:
    return refusal(caller.principal, "job.read", thing_of(one)) is None


async def follow(
    feed: ChangeFeed, services: Services, caller: Caller, after: int | None, holder: Callable[[], Awaitable[Caller]]
) -> AsyncGenerator[bytes, None]:
    """Return the changes as events; raise TooManyRequestsError if the user follows them too often."""
    readers = feed.readers
    if readers[caller.user] >= READERS_PER_USER:
        message = f"{caller.user} follows changes over {READERS_PER_USER} connections already"
        raise Refused(
            "TooManyRequestsError", message, "close some pages or programs; one connection does for a browser"
        )
    position = await feed.begin()
    first = await changed_jobs(services.jobs, caller, None if after is None else max(after - OVERLAP, 0))
    return _counted(readers, caller.user, _events(feed, services, caller, (position, first), holder))


async def _counted(
    readers: Counter[str], user: str, events: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    readers[user] += 1
    try:
        async with aclosing(events):
            async for event in events:
                yield event
    finally:
        readers[user] -= 1
        if not readers[user]:
            del readers[user]


async def _events(
    feed: ChangeFeed,
    services: Services,
    caller: Caller,
    begin: tuple[int, JobChanges],
    holder: Callable[[], Awaitable[Caller]],
) -> AsyncGenerator[bytes, None]:
    """Yield changes while the login holds; a client connects again after the end of the stream."""
    position, first = begin
    now_s = asyncio.get_running_loop().time
    checked_s = now_s()
    yield _event(first)
    # A stopping server closes its connections.
    while services.is_ready():
        try:
            await feed.wait()
            if now_s() - checked_s >= services.settings.keep_alive_s:
                caller = replace(await holder(), action=caller.action)
                checked_s = now_s()
                yield KEEP_ALIVE
        except (Refused, Unavailable):
            return
        position, changed = feed.since(position)
        if changed is None:
            yield _event(JobChanges(next=feed.newest, jobs=[], others=False, complete=False))
        elif changed:
            yield _event(_document(caller, feed.newest, changed))


def _event(document: JobChanges) -> bytes:
    return b"id: %d\nevent: changes\ndata: %b\n\n" % (document["next"], encoded(document))
