"""Finds and kills processes that outlived their task attempt because they left its process group.

Reading the environment of every process takes milliseconds, so it runs in a thread, at long intervals, and once for all
attempts that ended meanwhile and must leave no process: those that were killed, those that had devices, and those whose
group was not empty.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from openpai.backends.process.processes import kill_strays, marked
from openpai.lifecycle.model import ExitReport
from openpai.system.supervision import note_failure, supervise

_ROUNDS_MAX: Final = 100
_PAUSE_S: Final = 0.02
"""The pause between two sweeps, because killed processes take a moment to die. Sweeping ends after two seconds."""
A = TypeVar("A")


class Sweeper(Generic[A]):
    """Sweeps every `every_s`, and at once for ended attempts; calls `on_clean` for each when nothing is left.

    `vacate` kills the processes left in the cgroups of ended attempts and returns whether there were none.
    """

    def __init__(
        self,
        root: str,
        is_running: Callable[[str], bool],
        vacate: Callable[[], bool],
        on_clean: Callable[[A, ExitReport], None],
        every_s: float,
    ) -> None:
        self._root = root
        self._is_running = is_running
        self._vacate = vacate
        self._on_clean = on_clean
        self._every_s = every_s
        self._waiting: list[tuple[A, ExitReport]] = []
        self._wanted = asyncio.Event()
        self._task = supervise("sweep stray processes", self._forever)

    def soon(self, attempt: A, report: ExitReport) -> None:
        """Call `on_clean` with an ended attempt after a sweep that begins later than now."""
        self._waiting.append((attempt, report))
        self._wanted.set()

    async def close(self) -> None:
        """Stop sweeping; `on_clean` is not called any more."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def sweep(self) -> None:
        """Kill every stray, and the processes it starts while dying."""
        for _ in range(_ROUNDS_MAX):
            found = await asyncio.to_thread(marked, self._root)
            strays = [stray for stray in found if not self._is_running(stray.directory)]
            if strays:
                await asyncio.to_thread(kill_strays, strays, self._root)
            is_vacated = self._vacate()
            if not strays and is_vacated:
                return
            await asyncio.sleep(_PAUSE_S)

    async def _forever(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every_s):
                    await self._wanted.wait()
            self._wanted.clear()
            waiting, self._waiting = self._waiting, []
            try:
                await self.sweep()
            except BaseException:
                # They end later, but they end.
                self._waiting += waiting
                self._wanted.set()
                raise
            for attempt, report in waiting:
                try:
                    self._on_clean(attempt, report)
                except Exception as error:
                    note_failure("sweep stray processes", error)
