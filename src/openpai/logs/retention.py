"""Chooses the logs to remove, and removes them a few hundred at a time.

Logs of attempts that ended first are removed first: those older than a limit, then as many more as needed to keep the
rest below a size. The logs of a running attempt are never touched. The choice is a pure function; the pass only lists,
asks when the attempts ended, and removes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

import structlog

from openpai.lifecycle.model import AttemptKey
from openpai.logs.capping import cap_logs
from openpai.logs.removing import remove_leftovers, remove_logs
from openpai.ports.clock import Clock
from openpai.ports.queries import JobQueries

REMOVED_AT_ONCE: Final = 500
_FILES_MAX: Final = 1000
_DAY_MS: Final = 86_400_000

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits on age and size."""

    age_max_ms: int = 30 * _DAY_MS
    bytes_max: int = 100 * 1024**3
    attempt_bytes_max: int = 0
    """The limit on the logs of one attempt; 0 sets none."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The logs of one attempt. `ended_at_ms` is None while it runs."""

    key: AttemptKey
    bytes: int
    written_at_ms: int
    """The last write: the attempt ended then or later."""
    ended_at_ms: int | None = None


def plan(kept: Sequence[Kept], bytes_total: int, limits: Limits, now_ms: int) -> tuple[AttemptKey, ...]:
    """Return the logs to remove, oldest end first, if all logs together take `bytes_total`."""
    going: list[AttemptKey] = []
    for logs, ended_at_ms in _oldest_first(kept):
        if now_ms - ended_at_ms <= limits.age_max_ms and bytes_total <= limits.bytes_max:
            break
        going.append(logs.key)
        bytes_total -= logs.bytes
    return tuple(going)


def suspects(found: Sequence[Kept], bytes_total: int, limits: Limits, now_ms: int) -> tuple[Kept, ...]:
    """Return those of some logs that may be removable, by their last write."""
    is_full = bytes_total > limits.bytes_max
    return tuple(logs for logs in found if is_full or now_ms - logs.written_at_ms > limits.age_max_ms)


def _oldest_first(kept: Iterable[Kept]) -> list[tuple[Kept, int]]:
    over = [(logs, logs.ended_at_ms) for logs in kept if logs.ended_at_ms is not None]
    return sorted(over, key=lambda pair: (pair[1], pair[0].key))


class Retention:
    """Removes logs beyond the limits."""

    def __init__(self, root: Path, jobs: JobQueries, clock: Clock, limits: Limits) -> None:
        self._root = root
        self._jobs = jobs
        self._clock = clock
        self._limits = limits

    async def run_once(self) -> int:
        """Remove the logs beyond the limits, a few hundred attempts at a time; return how many were removed."""
        now_ms = self._clock.now_ms()
        with contextlib.suppress(FileNotFoundError):
            await asyncio.to_thread(remove_leftovers, self._root)
        found = await asyncio.to_thread(self._scanned)
        bytes_total = sum(logs.bytes for logs in found)
        removed = 0
        for start in range(0, len(found), REMOVED_AT_ONCE):
            suspected = suspects(found[start : start + REMOVED_AT_ONCE], bytes_total, self._limits, now_ms)
            if not suspected:
                break
            going = plan(await self._ended(suspected), bytes_total, self._limits, now_ms)
            await asyncio.to_thread(_remove, self._root, going)
            gone = frozenset(going)
            bytes_total -= sum(logs.bytes for logs in suspected if logs.key in gone)
            removed += len(going)
        if removed:
            _log.info("removed logs", attempts=removed)
        return removed

    def _scanned(self) -> tuple[Kept, ...]:
        """Return the logs, after those are cut that their attempts wrote too fast for who watches them."""
        found, most = scan(self._root), self._limits.attempt_bytes_max
        for logs in found:
            if 0 < most < logs.bytes:
                # The guard of the disk logs a warning when a file system cannot do this.
                with contextlib.suppress(OSError):
                    cap_logs(str(self._root / logs.key.path()), most)
        return scan(self._root) if any(0 < most < logs.bytes for logs in found) else found

    async def _ended(self, chosen: Sequence[Kept]) -> tuple[Kept, ...]:
        """Return the logs with the time their attempts ended; those the store does not know are left out."""
        ends: dict[AttemptKey, int | None] = {}
        for job, attempt in dict.fromkeys((logs.key.job, logs.key.job_attempt) for logs in chosen):
            for row in await self._jobs.task_attempts(job, attempt):
                ends[row.key] = row.ended_at_ms
        # The store saves an attempt before it starts, so unknown logs belong to another database. They may still be
        # needed, and their task may still run.
        return tuple(replace(logs, ended_at_ms=ends[logs.key]) for logs in chosen if logs.key in ends)


def scan(root: Path) -> tuple[Kept, ...]:
    """Return the logs under `root`, one directory per attempt, longest unwritten first. Blocks: meant for a thread."""
    kept: list[Kept] = []
    with contextlib.suppress(FileNotFoundError):
        for path in root.iterdir():
            # Other names are not logs of attempts.
            # An unreadable directory, which a task may own, must not hide the others.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError, ValueError):
                kept.append(_measure(AttemptKey.parse(path.name), path))
    return tuple(sorted(kept, key=lambda logs: (logs.written_at_ms, logs.key)))


def _measure(key: AttemptKey, path: Path) -> Kept:
    used, written_at = 0, path.stat().st_mtime
    with os.scandir(path) as found:
        # A task in a container may create any number of files there.
        for entry in islice(found, _FILES_MAX):
            file = entry.stat(follow_symlinks=False)
            used += file.st_blocks * 512
            written_at = max(written_at, file.st_mtime)
    return Kept(key, used, int(written_at * 1000))


def _remove(root: Path, going: Iterable[AttemptKey]) -> None:
    for key in going:
        remove_logs(str(root / key.path()))
