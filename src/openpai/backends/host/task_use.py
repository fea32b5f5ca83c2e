"""Measures what the processes of tasks use, from /proc and from cgroups of both versions.

Plain blocking functions over small files, meant for a thread. Counters of processes are lost with them, except for
processor time, which a process adds to its parent's when that waits for it; so the largest value seen is kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from openpai.lifecycle.model import AttemptKey
from openpai.ports.task_usage import Counters, TaskSample
from openpai.system.kernel_files import processes_in, read_text

_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_SESSION, _USER_TIME, _BORN, _PAGES = 3, 11, 19, 21
"""Positions among the fields of /proc/PID/stat after the name in parentheses."""
_STOPPED: Final = "Tt"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the processes of a task attempt are found."""

    key: AttemptKey
    session: int | None = None
    """The session that the task's processes belong to, where no cgroup has them all."""
    cgroup: str = ""
    """The directory of a cgroup that has all its processes."""
    memory: str = ""
    """The directory of the cgroup that counts its memory; empty: the memory of its processes is added up."""
    cpu: str = ""
    """The directory of the cgroup that counts its processor time."""
    network_of: int | None = None
    """A process whose network belongs to the task alone."""


class Process(NamedTuple):
    """A process as /proc/PID/stat describes it."""

    pid: int
    state: str
    session: int
    cpu_s: float
    born: int
    resident_bytes: int


@dataclass(slots=True)
class _Known:
    """What was counted of an attempt so far."""

    cpu_s: float = 0.0
    read: int = 0
    written: int = 0
    disks: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """Bytes read and written by each process, by its number and birth."""


class Measuring:
    """Measures tasks again and again; it remembers what processes that have ended used."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._known: dict[AttemptKey, _Known] = {}

    def measure(self, places: Iterable[Place], now_ms: int) -> list[TaskSample]:
        """Return a sample of each task that has a process, and forget all others."""
        known, samples = {}, []
        for place, processes in self.processes(places):
            if processes:
                one = known[place.key] = self._known.get(place.key) or _Known()
                samples.append(self._sample(place, processes, one, now_ms))
        self._known = known
        return samples

    def processes(self, places: Iterable[Place]) -> Iterator[tuple[Place, list[Process]]]:
        """Yield the processes of each task."""
        places = tuple(places)
        sessions = self._sessions() if any(not place.cgroup for place in places) else {}
        for place in places:
            pids = processes_in(place.cgroup) if place.cgroup else sessions.get(place.session or 0, ())
            yield place, [process for pid in pids if (process := self._process(pid)) is not None]

    def _sample(self, place: Place, processes: list[Process], known: _Known, now_ms: int) -> TaskSample:
        counted_s = _cpu_s(place.cpu) if place.cpu else None
        cpu_s = sum(process.cpu_s for process in processes) if counted_s is None else counted_s
        known.cpu_s = max(known.cpu_s, cpu_s)
        has_disk = self._add_disk(processes, known)
        received, sent = self._network(place.network_of)
        memory = _memory(place.memory) if place.memory else None
        return TaskSample(
            place.key,
            now_ms,
            Counters(
                known.cpu_s, known.read if has_disk else None, known.written if has_disk else None, received, sent
            ),
            sum(process.resident_bytes for process in processes) if memory is None else memory,
            len(processes),
            sum(process.state in _STOPPED for process in processes),
        )

    def _add_disk(self, processes: list[Process], known: _Known) -> bool:
        disks, is_counted = {}, False
        for process in processes:
            # Readable with the rights of the task's user or of root.
            fields = _fields(read_text(f"{self._proc}/{process.pid}/io"))
            if "read_bytes" not in fields:
                continue
            is_counted = True
            now = fields["read_bytes"], fields.get("write_bytes", 0)
            before = known.disks.get((process.pid, process.born), (0, 0))
            known.read += max(0, now[0] - before[0])
            known.written += max(0, now[1] - before[1])
            disks[process.pid, process.born] = now
        known.disks = disks
        return is_counted

    def _network(self, pid: int | None) -> tuple[int | None, int | None]:
        if pid is None:
            return None, None
        received = sent = 0
        for line in read_text(f"{self._proc}/{pid}/net/dev").splitlines()[2:]:
            name, _, counts = line.partition(":")
            numbers = counts.split()
            if name.strip() != "lo" and len(numbers) > 8:
                received += int(numbers[0])
                sent += int(numbers[8])
        return received, sent

    def _sessions(self) -> Mapping[int, list[int]]:
        """Return the processes of this machine by session."""
        found: dict[int, list[int]] = {}
        for name in os.listdir(self._proc):  # noqa: PTH208  # thousands of names, each second
            if name.isdecimal() and (process := self._process(int(name))) is not None:
                found.setdefault(process.session, []).append(process.pid)
        return found

    def _process(self, pid: int) -> Process | None:
        # The name, in parentheses, is the task's choice.
        fields = read_text(f"{self._proc}/{pid}/stat").rpartition(")")[2].split()
        if len(fields) <= _PAGES or fields[0] == "Z":
            return None
        ticks = sum(map(int, fields[_USER_TIME : _USER_TIME + 4]))
        pages = max(0, int(fields[_PAGES]))
        return Process(pid, fields[0], int(fields[_SESSION]), ticks * _TICK_S, int(fields[_BORN]), pages * _PAGE_BYTES)


def cgroup_places(
    key: AttemptKey, pid: int, mounts: Mapping[str, str], *, has_network: bool, proc: str = "/proc"
) -> Place:
    """Return the place of a container by its first process; `mounts` are the cgroup hierarchies by controller.

    The unified hierarchy of version 2 has the empty name.
    """
    paths: dict[str, str] = {}
    for line in read_text(f"{proc}/{pid}/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        paths |= {name: f"{mounts[name]}{path}" for name in names.split(",") if name in mounts}
    unified = paths.get("", "")
    memory, cpu = paths.get("memory", unified), paths.get("cpuacct", unified)
    network_of = pid if has_network else None
    return Place(key, cgroup=memory or cpu, memory=memory, cpu=cpu, network_of=network_of)


def cgroup_mounts(proc: str = "/proc") -> dict[str, str]:
    """Return where the cgroup hierarchies are mounted, by controller."""
    found: dict[str, str] = {}
    for line in read_text(f"{proc}/self/mountinfo").splitlines():
        here, _, kind = line.partition(" - ")
        words = kind.split()
        fields = here.split()
        # A part of a hierarchy that is mounted elsewhere has other paths.
        if len(words) < 3 or fields[3] != "/":
            continue
        if words[0] == "cgroup2":
            found.setdefault("", fields[4])
        elif words[0] == "cgroup":
            for name in words[-1].split(","):
                found.setdefault(name, fields[4])
    return found


def _cpu_s(cgroup: str) -> float | None:
    if text := read_text(f"{cgroup}/cpuacct.usage"):
        return int(text) / 1e9
    fields = _fields(read_text(f"{cgroup}/cpu.stat"))
    return fields["usage_usec"] / 1e6 if "usage_usec" in fields else None


def _memory(cgroup: str) -> int | None:
    text = read_text(f"{cgroup}/memory.current") or read_text(f"{cgroup}/memory.usage_in_bytes")
    if not text:
        return None
    fields = _fields(read_text(f"{cgroup}/memory.stat"))
    # The cache of files is given up when another task needs memory.
    cache = fields.get("total_inactive_file", fields.get("inactive_file", 0))
    return max(0, int(text) - cache)


def _fields(text: str) -> dict[str, int]:
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if value.strip().isdecimal():
            found[name.rstrip(":")] = int(value)
    return found
