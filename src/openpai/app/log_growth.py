"""Notes when the logs of tasks grow. Where a backend knows which do, of thousands no other is looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from openpai.lifecycle.model import AttemptKey
from openpai.logs.write_times import Moments
from openpai.ports.backend import Backend, BringsLogs
from openpai.ports.clock import Clock

MOMENT_S: Final = 1.0


def grown_logs(backend: Backend) -> set[AttemptKey] | None:
    """Return a set that gets the attempts whose logs have grown; None if the backend does not know."""
    if not isinstance(backend, BringsLogs):
        return None
    grown: set[AttemptKey] = set()
    backend.note_growth(grown)
    return grown


async def note_growth_forever(backend: Backend, logs: Path, clock: Clock) -> None:
    """Write beside each log that has grown when that was, every second or less often."""
    loop, moments, grown = asyncio.get_running_loop(), Moments(), grown_logs(backend)

    def look(keys: Sequence[AttemptKey], now_ms: int) -> None:
        moments.look([f"{logs}/{key.path()}" for key in keys], now_ms)

    while True:
        began_s = loop.time()
        if grown is None:
            keys = [task.key for task in await backend.observe() if task.exit is None]
        else:
            keys = list(grown)
            grown.clear()
        if keys:
            await asyncio.to_thread(look, keys, clock.now_ms())
        # Checking thousands of logs takes a while, so it happens less often.
        await asyncio.sleep(max(MOMENT_S, 20 * (loop.time() - began_s)))
