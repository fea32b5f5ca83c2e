"""Finds the progress of tasks in their logs, by the pattern of their job.

Only what was written since the last look is searched, at most the last 64 KiB of each stream, from its end. A round has
a bound on its processor time; the tasks it did not come to go first in the next.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from openpai.lifecycle.model import AttemptKey
from openpai.orchestrator.leader import Leader
from openpai.ports.logs import PRINTED, LogReader
from openpai.ports.task_usage import TaskSample
from openpai.protocol.errors import PaiError
from openpai.protocol.progress_pattern import InvalidPattern, compiled, progress_pattern
from openpai.runtime.progress import Progress, progress_of

TAIL_BYTES: Final = 64 * 1024
PIECE_BYTES: Final = 4096
"""What is searched at a time: a pattern that fits everywhere is found this often at most."""
ROUND_S: Final = 0.1
"""The processor time that the searches of one round may take, and how much of it one log may take."""
LOOK_S: Final = 0.02


@dataclass(slots=True)
class _Seen:
    """What was read of the log of a task, and found."""

    sizes: dict[str, int] = field(default_factory=dict)
    progress: Progress | None = None
    at_ms: int = 0


class LogProgress:
    """Remembers how far the tasks of jobs with a pattern are."""

    def __init__(self, logs: LogReader, pattern_of: Callable[[str], str]) -> None:
        """`pattern_of` returns the pattern of a job by its id, empty for none."""
        self._logs = logs
        self._pattern_of = pattern_of
        self._seen: dict[AttemptKey, _Seen] = {}

    async def add(self, samples: Sequence[TaskSample]) -> tuple[TaskSample, ...]:
        """Return the samples with the progress in their logs; what a task reports itself goes first."""
        wanted = {each.key: each for each in samples if each.progress is None and self._pattern_of(each.key.job)}
        # Those that a round did not come to are the last of the remembered.
        waiting = sorted(wanted, key=lambda key: key in self._seen)
        found = {key: seen for key, seen in self._seen.items() if key in wanted}
        left_s = ROUND_S
        for key in waiting:
            if left_s <= 0:
                break
            seen = found.pop(key, None) or _Seen()
            left_s -= await self._look(key, seen, wanted[key].at_ms)
            found[key] = seen
        self._seen = found
        return tuple(_with(sample, found.get(sample.key)) for sample in samples)

    async def _look(self, key: AttemptKey, seen: _Seen, now_ms: int) -> float:
        """Search what is new in the log of a task; return the processor time it took."""
        took_s = 0.0
        for stream in PRINTED:
            try:
                new = await self._new(key, stream, seen)
                if new:
                    progress, spent_s = await asyncio.to_thread(_timed, self._pattern_of(key.job), new)
                    took_s += spent_s
                    if progress is not None:
                        seen.progress, seen.at_ms = progress, now_ms
            except (PaiError, OSError):
                # It has no log yet.
                continue
        return took_s

    async def _new(self, key: AttemptKey, stream: str, seen: _Seen) -> bytes:
        """Return whole lines that were not searched yet, and the states of a progress bar."""
        size = (await self._logs.read(key, stream, 0, 0)).size
        known = seen.sizes.get(stream, 0)
        if size <= known:
            seen.sizes[stream] = size
            return b""
        start = max(known, size - TAIL_BYTES)
        chunk = await self._logs.read(key, stream, start, size - start)
        end = max(chunk.data.rfind(b"\n"), chunk.data.rfind(b"\r")) + 1
        # The rest is a line that is not finished; a longer one is searched in parts.
        end = end or (len(chunk.data) if len(chunk.data) >= TAIL_BYTES else 0)
        seen.sizes[stream] = chunk.offset + end
        return chunk.data[:end]


def pattern_in(leader: Leader | None, job: str) -> str:
    """Return the pattern of an active job, empty for none."""
    found = leader.active.records.get(job) if leader is not None else None
    return progress_pattern(found.spec.extras) if found is not None else ""


def _timed(pattern: str, data: bytes) -> tuple[Progress | None, float]:
    began_s = time.thread_time()
    return last_progress(pattern, data), time.thread_time() - began_s


def last_progress(pattern: str, data: bytes) -> Progress | None:
    """Return what the last place says that a pattern fits; None if it fits nowhere."""
    try:
        expression = compiled(pattern)
    except InvalidPattern:
        # The job is older than the check of patterns.
        return None
    data = data.replace(b"\r", b"\n")
    end = len(data)
    until_s = time.thread_time() + LOOK_S
    while end > 0 and time.thread_time() < until_s:
        low = max(0, end - PIECE_BYTES)
        start = data.find(b"\n", low, end - 1) + 1 if low else 0
        start = start or low
        for found in reversed([_groups(match) for match in expression.finditer(data[start:end])]):
            if (progress := progress_of(found)) is not None:
                return progress
        end = start
    return None


def _groups(match: Any) -> Mapping[str, str]:
    names = match.re.groupindex
    found = ((name, match.group(number)) for name, number in names.items())
    return {
        name.decode() if isinstance(name, bytes) else name: value.decode(errors="replace")
        for name, value in found
        if value is not None
    }


def _with(sample: TaskSample, seen: _Seen | None) -> TaskSample:
    if seen is None or seen.progress is None:
        return sample
    return replace(sample, progress=seen.progress, progress_at_ms=seen.at_ms)
