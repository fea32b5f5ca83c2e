"""Limits each task attempt to the memory it asked for, by a cgroup of its own where this machine allows it.

Creating and removing a cgroup costs the kernel more than starting a shell, so a few are reused: never one that still
has a process, or much memory of its former task, or in which a task was killed for memory. An attempt keeps its cgroup
until it is forgotten; until then any server can find out from it whether memory was the reason of the end. All of this
holds for strays, too: a process that a task started is in its cgroup, whatever its session or environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

import structlog

from openpai.backends.process.attempts import ProcessAttempt
from openpai.backends.process.cgroups import FIRST, SECOND, Generation, Home, write
from openpai.backends.process.processes import signal_held
from openpai.system.kernel_files import processes_in, read_text

log: Final = structlog.get_logger(__name__)
LEAST_MB: Final = 16
"""The limit of a task that asks for less: the shells that run a task need a few megabytes themselves."""
KEPT_MAX: Final = 64
_LEFT_MAX: Final = 4 << 20
"""A cgroup with more bytes than this left from its former task is not reused."""


class MemoryLimits:
    """Lends cgroups to task attempts, by their paths. Without a parent cgroup it lends none, and there is no limit."""

    def __init__(self, home: Home | None, in_use: Iterable[str] = ()) -> None:
        self._home = home
        self._limit_of: dict[str, int] = {}
        self._free: list[str] = []
        self._lent = set(in_use) - {""}
        self._leaving: set[str] = set()
        self._vacated: set[str] = set()
        # Do not reuse cgroup names that attempts from before a restart of the machine have recorded.
        self._made = max((int(name) for path in self._lent if (name := Path(path).name).isdecimal()), default=0)
        if home is not None:
            self._take_up(Path(home.path))

    def lend(self, memory_mb: int) -> str:
        """Return the path of a free cgroup with this limit, empty if there is none."""
        if self._home is None:
            return ""
        cgroup = ""
        try:
            cgroup = self._free.pop() if self._free else self._make(self._home)
            self._set_limit(cgroup, max(memory_mb, LEAST_MB) << 20, self._home.generation)
        except OSError:
            if cgroup:
                self._remove(cgroup)
            return ""
        self._lent.add(cgroup)
        return cgroup

    def vacate(self, cgroup: str) -> bool:
        """Kill the processes left in the cgroup of an attempt that ended; return whether there were none."""
        # An empty cgroup stays empty, because only its own processes start others in it.
        if not cgroup or cgroup in self._vacated:
            return True
        is_vacated = not kill_all(cgroup)
        (self._vacated if is_vacated else self._leaving).add(cgroup)
        return is_vacated

    def vacate_all(self) -> bool:
        """Repeat that for every cgroup that had processes; return whether all are empty."""
        for cgroup in tuple(self._leaving):
            if not kill_all(cgroup):
                self._leaving.discard(cgroup)
                if cgroup not in self._lent:
                    self._remove(cgroup)
        return not self._leaving

    def give_back(self, cgroup: str) -> None:
        """Take back the cgroup of a forgotten attempt, to lend it again or to remove it."""
        if not cgroup:
            return
        self._lent.discard(cgroup)
        is_vacated = self.vacate(cgroup)
        self._vacated.discard(cgroup)
        if not is_vacated:
            return
        if len(self._free) < KEPT_MAX and self._is_as_new(cgroup):
            self._free.append(cgroup)
        else:
            self._remove(cgroup)

    def close(self) -> None:
        """Remove the free cgroups."""
        for cgroup in self._free:
            self._remove(cgroup)
        self._free.clear()
        if self._home is not None:
            with contextlib.suppress(OSError):
                Path(self._home.path).rmdir()

    def _take_up(self, home: Path) -> None:
        """Remove cgroups that a dead server lent to forgotten attempts, with all processes in them."""
        for path in home.iterdir():
            if path.is_dir() and path.name.isdecimal():
                self._made = max(self._made, int(path.name))
                if str(path) not in self._lent:
                    self.give_back(str(path))

    def _make(self, home: Home) -> str:
        self._made += 1
        cgroup = f"{home.path}/{self._made}"
        Path(cgroup).mkdir()
        for name, value in home.generation.fixed:
            # A kernel without swap has no file to limit it.
            with contextlib.suppress(OSError):
                write(f"{cgroup}/{name}", value)
        return cgroup

    def _set_limit(self, cgroup: str, limit: int, generation: Generation) -> None:
        former = self._limit_of.get(cgroup)
        if former == limit:
            return
        names = [generation.limit]
        if generation.limit_with_swap and os.path.exists(f"{cgroup}/{generation.limit_with_swap}"):  # noqa: PTH110
            names.append(generation.limit_with_swap)
        # The limit of memory with swap may never be below that of memory.
        for name in reversed(names) if former is not None and limit > former else names:
            write(f"{cgroup}/{name}", str(limit))
        self._limit_of[cgroup] = limit

    def _is_as_new(self, cgroup: str) -> bool:
        left = read_text(f"{cgroup}/{generation_of(cgroup).usage}")
        return cgroup in self._limit_of and left != "" and int(left) <= _LEFT_MAX and not has_run_out(cgroup)

    def _remove(self, cgroup: str) -> None:
        self._limit_of.pop(cgroup, None)
        with contextlib.suppress(OSError):
            Path(cgroup).rmdir()


def limit_memory(home: Home | None, attempts: Collection[ProcessAttempt]) -> MemoryLimits:
    """Return the limits of a server that adopted `attempts`, and log once whether there are any."""
    if home is None:
        log.info("tasks may use more memory than they ask for: no cgroup can be made here that limits it")
    else:
        log.info("tasks are kept within the memory they ask for", cgroup=home.path, version=home.generation.number)
    limits = MemoryLimits(home, {attempt.cgroup for attempt in attempts})
    for attempt in attempts:
        if attempt.exit is not None:
            limits.vacate(attempt.cgroup)
    return limits


def entry_of(cgroup: str) -> str:
    """Return the file by which a process moves into a cgroup; empty for no cgroup."""
    return f"{cgroup}/{generation_of(cgroup).entry}" if cgroup else ""


def generation_of(cgroup: str) -> Generation:
    """Return the version of a cgroup that was lent; an earlier server may have used another parent cgroup."""
    return FIRST if os.path.exists(f"{cgroup}/{FIRST.entry}") else SECOND  # noqa: PTH110  # asked for each task


def has_run_out(cgroup: str) -> bool:
    """Return whether a process in this cgroup was killed for memory; False for no cgroup, or one that is gone."""
    if not cgroup:
        return False
    for line in read_text(f"{cgroup}/{generation_of(cgroup).events}").splitlines():
        name, _, number = line.partition(" ")
        if name == "oom_kill":
            return int(number) > 0
    return False


def kill_all(cgroup: str) -> bool:
    """Kill every process in a cgroup and return whether there was one."""
    held = {}
    for pid in processes_in(cgroup):
        with contextlib.suppress(OSError):
            held[pid] = os.pidfd_open(pid)
    # A process that is still listed while its pidfd is open is the one listed before, not a later one with its number.
    listed = processes_in(cgroup) if held else []
    for pid, file in held.items():
        if pid in listed:
            signal_held(file, signal.SIGKILL)
        os.close(file)
    return bool(listed)
