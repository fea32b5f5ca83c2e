"""Leadership: one server leads at a time; the others answer requests and wait for the lease to expire."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import Final

import structlog

from openpai.app.loops import PAUSE_AFTER_ERROR_S, Resync, lead
from openpai.orchestrator.commands import PlatformCommands
from openpai.orchestrator.fairness import read_use
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.takeover import take_over
from openpai.ports.clock import Clock
from openpai.ports.store import LEASE_MS, JobRecord, JobStore, LeaseLost
from openpai.ports.usage import UseRow
from openpai.protocol.errors import Unavailable
from openpai.system.supervision import note_failure

WATCH_EVERY_S: Final = 1.0
"""How often a waiting server checks whether the lease was renewed."""
log: Final = structlog.get_logger(__name__)


class Leadership:
    """Takes the lease when it is free, leads while it holds it, and gives it back at the end."""

    def __init__(
        self,
        store: JobStore,
        clock: Clock,
        commands: PlatformCommands,
        new_leader: Callable[..., Leader],
        *,
        holder: str,
        housekeeping: Callable[[], Awaitable[float | None]],
        term: Callable[[int], AbstractAsyncContextManager[object]] = nullcontext,
        loading: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """`term` is entered with the epoch before this server leads, and left when it leads no longer.

        `loading` is entered while everything is read that stays as long as this server leads.
        `new_leader` gets the epoch and the URL of this server.
        """
        self._store = store
        self._clock = clock
        self._commands = commands
        self._new_leader = new_leader
        self._process = holder
        self._holder = holder
        self._terms = 0
        self._housekeeping = housekeeping
        self._term = term
        self._loading = loading
        self.url = ""
        """The URL under which other servers reach this one; set once it listens."""
        self.is_settled = asyncio.Event()
        """Set once this server leads and has decided what starts now, or knows that another one leads."""

    async def run(self) -> None:
        """Lead whenever possible, until cancelled."""
        last_message = ""
        try:
            while True:
                try:
                    await self._once()
                    last_message = ""
                except (LeaseLost, Resync) as error:
                    # A new name gets a new epoch, so that no write of this term passes in the next one.
                    self._terms += 1
                    last_message = ""
                    self._holder = f"{self._process}-{self._terms}"
                    log.warning(
                        "this server leads no longer and will try again",
                        error=str(error) or "its copy of the active jobs is outdated",
                    )
                    if isinstance(error, Resync):
                        # The cause may persist, and must not keep the machine busy.
                        await asyncio.sleep(PAUSE_AFTER_ERROR_S)
                except Unavailable as error:
                    # Log an outage of hours once, not each second.
                    if error.message != last_message:
                        log.warning(
                            "this server cannot lead yet, and tries again", error=error.message, advice=error.advice
                        )
                    last_message = error.message
                    await asyncio.sleep(PAUSE_AFTER_ERROR_S)
                except Exception as error:
                    # A server that cannot start exits with the error; one that already serves goes on.
                    if not self.is_settled.is_set():
                        raise
                    note_failure("lead", error)
                    self._terms += 1
                    self._holder = f"{self._process}-{self._terms}"
                    await asyncio.sleep(PAUSE_AFTER_ERROR_S)
        finally:
            self._commands.leader = None
            # A lease that cannot be given back expires.
            with contextlib.suppress(Unavailable):
                await self._store.release_lease(self._holder)

    async def _once(self) -> None:
        epoch = await self._store.lease(self._holder, self._clock.now_ms(), LEASE_MS, self.url)
        if epoch is None:
            self.is_settled.set()
            await asyncio.sleep(WATCH_EVERY_S)
            return
        async with contextlib.AsyncExitStack() as term:
            with self._loading():
                leader = await self._begun(term, epoch)
            await self._lead(leader)

    async def _begun(self, term: contextlib.AsyncExitStack, epoch: int) -> Leader:
        # The store is read while the backend waits for its cluster: the lease is held, so no other leader writes there.
        reading = asyncio.create_task(self._read(epoch))
        try:
            await term.enter_async_context(self._term(epoch))
            leader, records, use = await reading
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        await take_over(leader, records, use)
        return leader

    async def _read(self, epoch: int) -> tuple[Leader, Sequence[JobRecord], Sequence[UseRow]]:
        leader = self._new_leader(epoch=epoch, url=self.url)
        # Side by side: adding up what thousands of tasks used keeps a thread, and no Python, busy.
        return leader, *await asyncio.gather(leader.store.active(), read_use(leader))

    async def _lead(self, leader: Leader) -> None:
        self._commands.leader = leader
        log.info("this server leads", epoch=leader.epoch, jobs=len(leader.active.records), nodes=len(leader.nodes))
        try:
            # What else a start does would delay the first decision.
            await lead(leader, self._holder, self._housekeeping, self.is_settled.set)
        finally:
            self._commands.leader = None


class Follower:
    """Answers requests and never leads: another server does."""

    def __init__(self) -> None:
        self.url = ""
        self.is_settled = asyncio.Event()
        self.is_settled.set()

    async def run(self) -> None:
        """Wait until cancelled."""
        await asyncio.Event().wait()
