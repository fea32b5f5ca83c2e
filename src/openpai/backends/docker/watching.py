"""Watches which containers begin, end and vanish, even if the Engine does not report it.

Ends arrive as events. Events can be lost, so periodically, and each time the connection was lost, the containers that
exist are compared with the register.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

import structlog

from openpai.backends.docker.containers import ROOT_LABEL, attempt_of, name_of, verdict
from openpai.backends.docker.engine import Engine, EngineError, NoContainer
from openpai.backends.host.attempts import HostAttempt
from openpai.backends.host.directory import TaskDirectory, task_directories
from openpai.backends.host.register import AttemptRegister
from openpai.lifecycle.model import ExitReason, ExitReport
from openpai.ports.clock import Clock

log: Final = structlog.get_logger(__name__)
_LISTEN_AGAIN_S: Final = (0.2, 1.0, 5.0)
_BEGUN: Final = frozenset({"running", "exited", "dead", "stopped"})


class Watcher:
    """Keeps the register in line with the Engine."""

    def __init__(
        self, engine: Engine, register: AttemptRegister[HostAttempt], *, root: str, scope: str, clock: Clock
    ) -> None:
        self._engine = engine
        self._register = register
        self._root = root
        self._label = f"{ROOT_LABEL}={scope}"
        self._clock = clock
        self.silence = ""
        """Why the Engine cannot be watched now; empty while it answers."""

    async def listen_forever(self) -> None:
        """Follow the Engine's events of ended containers; reconnect while it does not answer."""
        tries = 0
        while True:
            since_s = self._clock.now_ms() / 1000 - 1
            try:
                await self._compare_and_tell()
                tries = 0
                async for name in self._engine.ends(self._label, since_s):
                    attempt = self._register.named(name)
                    if attempt is not None and attempt.exit is None:
                        await self.look(attempt)
            except EngineError as error:
                self._is_silent(f"the container Engine does not answer: {error}")
            await asyncio.sleep(_LISTEN_AGAIN_S[min(tries, len(_LISTEN_AGAIN_S) - 1)])
            tries += 1

    async def compare_forever(self, every_s: float) -> None:
        """Compare periodically: an Engine that hangs sends no event."""
        while True:
            await asyncio.sleep(every_s)
            try:
                await self._compare_and_tell()
            except EngineError as error:
                self._is_silent(f"the container Engine does not answer: {error}")

    async def compare(self) -> None:
        """Adopt containers that are not registered, and check those whose state differs from the register."""
        # Only an attempt that had begun before the list was taken can be missing from it.
        begun = {attempt for attempt in self._register if attempt.started_at_ms is not None}
        there = await self._engine.names(self._label)
        for name in there:
            if self._register.named(name) is None and not self._register.is_leaving(name):
                await self._adopt(name)
        for attempt in self._register:
            state = there.get(attempt.name)
            has_changed = state != "running" if attempt in begun else state in _BEGUN
            if attempt.exit is None and has_changed:
                await self.look(attempt)

    async def _compare_and_tell(self) -> None:
        await self.compare()
        if self.silence:
            log.info("the container Engine answers again")
        self.silence = ""

    def _is_silent(self, message: str) -> None:
        if not self.silence:
            log.warning("the node takes no tasks now", message=message)
        self.silence = message

    async def look(self, attempt: HostAttempt) -> None:
        """Record whether an attempt has begun or ended; if that cannot be found out now, it is checked again later."""
        try:
            await self._look(attempt)
        except Exception:
            # One task's damaged files must not leave all the others unwatched.
            log.exception("an attempt could not be checked", attempt=attempt.key.path())

    async def _look(self, attempt: HostAttempt) -> None:
        try:
            state = await self._engine.inspect(attempt.name)
        except NoContainer:
            if attempt.exit is None:
                self._register.end(attempt, attempt.cut_off or attempt.directory.report() or self._lost())
            return
        except EngineError:
            return
        if attempt.exit is not None or not state.has_begun:
            return
        started_at_ms = attempt.started_at_ms or state.started_at_ms or self._clock.now_ms()
        if state.has_ended:
            attempt.started_at_ms = started_at_ms
            ticket, was_killed = attempt.directory.ticket(), attempt.kill_requested.is_set()
            has_begun = ticket is not None and ticket.pid is not None
            # Root in a container could replace the platform's report.
            written = attempt.cut_off or attempt.directory.report()
            self._register.end(attempt, verdict(state, written, has_begun=has_begun, was_killed=was_killed))
        elif attempt.started_at_ms is None:
            self._register.started(attempt, started_at_ms)

    async def _adopt(self, name: str) -> None:
        """Adopt a container that an earlier server started."""
        try:
            state = await self._engine.inspect(name)
        except NoContainer:
            return
        owner = attempt_of(state)
        # A container that was created but not started waits for its launch to be repeated.
        if owner is None or owner.key in self._register or not state.has_begun:
            return
        attempt = attempt_in(TaskDirectory(self._root, owner.key), owner.grant, owner.devices)
        self._register.add(attempt)
        await self.look(attempt)

    def _lost(self) -> ExitReport:
        message = "its container vanished: it was removed from outside"
        return ExitReport(137, ExitReason.LOST, message, ended_at_ms=self._clock.now_ms())


def attempt_in(directory: TaskDirectory, grant: int = 0, devices: tuple[int, ...] = ()) -> HostAttempt:
    """Return the record of an attempt with this directory; its container may not exist yet."""
    return HostAttempt(directory.key, name_of(directory.key), grant, devices, directory=directory)


def left_without_container(root: str, known: AttemptRegister[HostAttempt]) -> Iterator[tuple[HostAttempt, ExitReport]]:
    """Yield every unknown attempt below `root` that is over: refused, or its container was removed.

    A directory without a ticket is no attempt yet: its launch will be repeated.
    """
    for directory in task_directories(root):
        if directory.key in known:
            continue
        record, ticket, report = directory.record(), directory.ticket(), directory.report()
        has_begun = ticket is not None and ticket.pid is not None
        if report is None and has_begun:
            report = ExitReport(137, ExitReason.LOST, "its container vanished while no server looked")
        if report is not None:
            attempt = attempt_in(directory, *((record.grant, record.devices) if record else ()))
            attempt.started_at_ms = record.started_at_ms if record and has_begun else None
            yield attempt, report
