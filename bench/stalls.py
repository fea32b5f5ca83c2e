"""A server that measures how long its event loop was kept from its next turn, and by what.

Run as `python -m bench.stalls FIGURES up --port 0 ...`: everything after FIGURES is for `pai`. A tick is due on the
loop every few milliseconds. How late it comes is a stall; the processor time of the loop's thread in it says whether
the server itself is to blame or its neighbours on the machine. On SIGUSR1 the figures are written to FIGURES and
counted from nothing again: the stalls in which most was computed, and the longest.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

from openpai.app import serve

TICK_S: Final = 0.005
LONG_S: Final = 0.05
WORST_KEPT: Final = 12
OURS: Final = ("/openpai/", "/sqlalchemy/", "/alembic/", "/uvicorn/", "/starlette/", "/json/", "/asyncio/")


@dataclass
class Stall:
    """One time at which the loop was late: by how much, how much its thread computed, and what it did."""

    late_s: float
    cpu_s: float
    all_cpu_s: float
    """What every thread of the process computed meanwhile."""
    at_s: float = 0.0
    doing: list[str] = field(default_factory=list)


class Ticking:
    """Ticks on a loop, and remembers the worst stalls."""

    def __init__(self, figures: Path) -> None:
        self.figures = figures
        self.worst: list[Stall] = []
        self.latest: list[Stall] = []
        self.longest_s = self.most_cpu_s = 0.0
        self.last_s = time.perf_counter()
        self.began_s = self.last_s
        self.cpu_s = self.all_cpu_s = 0.0
        self.seen: list[list[str]] = []
        self.main = threading.get_ident()

    def begin(self) -> None:
        """Tick from now on, and look from another thread at what keeps the loop."""
        loop = asyncio.get_running_loop()
        self.last_s, self.cpu_s, self.main = time.perf_counter(), time.thread_time(), threading.get_ident()
        loop.add_signal_handler(signal.SIGUSR1, self.write)
        loop.call_later(TICK_S, self._tick, loop)
        threading.Thread(target=self._look, daemon=True).start()

    def write(self) -> None:
        """Write what was measured, and begin again."""
        found = {
            "longest_s": round(self.longest_s, 3),
            "most_cpu_s": round(self.most_cpu_s, 3),
            "most_computed": [asdict(stall) for stall in self.worst],
            "latest": [asdict(stall) for stall in self.latest],
        }
        part = self.figures.with_suffix(".part")
        part.write_text(json.dumps(found))
        part.replace(self.figures)
        self.worst, self.latest, self.most_cpu_s, self.longest_s = [], [], 0.0, 0.0

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s, cpu_s, all_cpu_s = time.perf_counter(), time.thread_time(), time.process_time()
        late_s, used_s = now_s - self.last_s - TICK_S, cpu_s - self.cpu_s
        self.most_cpu_s = max(self.most_cpu_s, used_s)
        self.longest_s = max(self.longest_s, late_s)
        if late_s > LONG_S:
            doing = max(self.seen, key=self.seen.count) if self.seen else []
            all_s = all_cpu_s - self.all_cpu_s
            at_s = round(now_s - self.began_s, 2)
            stall = Stall(round(late_s, 3), round(used_s, 3), round(all_s, 3), at_s, doing)
            self.worst = sorted([*self.worst, stall], key=lambda one: -one.cpu_s)[:WORST_KEPT]
            self.latest = sorted([*self.latest, stall], key=lambda one: -one.late_s)[:WORST_KEPT]
        self.seen = []
        self.last_s, self.cpu_s, self.all_cpu_s = now_s, cpu_s, all_cpu_s
        loop.call_later(TICK_S, self._tick, loop)

    def _look(self) -> None:
        while True:
            time.sleep(LONG_S / 4)
            if time.perf_counter() - self.last_s > LONG_S / 2:
                frames = sys._current_frames()  # noqa: SLF001  # the only way to another thread's calls
                others = [_describe(frame)[-4:] for thread, frame in frames.items() if thread != self.main]
                self.seen.append([*_describe(frames[self.main]), *(" < ".join(other) for other in others if other)])


def _describe(frame: FrameType) -> list[str]:
    """Return the calls that a thread is in, the innermost last."""
    return [
        f"{Path(call.filename).name}:{call.lineno} {call.name}"
        for call in traceback.extract_stack(frame)
        if any(part in call.filename for part in OURS)
    ][-9:]


def run(figures: Path, arguments: list[str]) -> None:
    """Run `pai` with these arguments, and measure its loop."""
    ticking = Ticking(figures)
    served: Any = serve._serve  # noqa: SLF001  # the first thing that runs on the loop

    async def measured(*given: Any) -> None:
        ticking.begin()
        await served(*given)

    serve._serve = measured  # type: ignore[assignment]  # noqa: SLF001
    from openpai.app import main

    sys.argv = ["pai", *arguments]
    main.run()


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
