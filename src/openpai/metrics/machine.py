"""Reads how busy this machine is, from /proc and the file system: processors, memory, disks and network.

Plain blocking functions over small files; what cannot be read is left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_SECTOR: Final = 512
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_LOOPBACK: Final = "lo"
_VIRTUAL_DISKS: Final = ("loop", "ram", "zram", "dm-", "md")
"""Their traffic is counted on the disks below them."""


class Machine:
    """This machine, read again and again."""

    def __init__(self, directory: Path, proc: str = "/proc", sys: str = "/sys") -> None:
        self._directory = directory
        self._proc = proc
        self._sys = sys
        self._busy, self._all = 0, 0

    def read(self) -> dict[str, float]:
        """Return what is in use, by the names of metrics of nodes."""
        return {**self._cpu(), **self._memory(), **self._disk(), **self._network(), **self._blocks()}

    def _cpu(self) -> Mapping[str, float]:
        fields = _text(f"{self._proc}/stat").partition("\n")[0].split()[1:9]
        if len(fields) < 5:
            return {}
        times = list(map(int, fields))
        everything, busy = sum(times), sum(times) - times[3] - times[4]
        passed, worked = everything - self._all, busy - self._busy
        is_first, self._all, self._busy = not self._all, everything, busy
        load = _text(f"{self._proc}/loadavg").split()
        found = {"pai_node_load1": float(load[0])} if load else {}
        if not is_first and passed > 0:
            found["pai_node_cpu_percent"] = max(0.0, min(100.0, worked / passed * 100))
        return found

    def _memory(self) -> Mapping[str, float]:
        fields = {}
        for line in _text(f"{self._proc}/meminfo").splitlines():
            name, _, rest = line.partition(":")
            if words := rest.split():
                fields[name] = int(words[0]) * 1024.0
        if "MemAvailable" not in fields:
            return {}
        total = fields["MemTotal"]
        return {
            "pai_node_memory_total_bytes": total,
            "pai_node_memory_used_bytes": max(0.0, total - fields["MemAvailable"]),
        }

    def _disk(self) -> Mapping[str, float]:
        try:
            found = os.statvfs(self._directory)
        except OSError:
            return {}
        size = found.f_frsize * found.f_blocks
        # What is left for others than root, as `df` counts.
        return {
            "pai_node_disk_total_bytes": float(size),
            "pai_node_disk_used_bytes": float(size - found.f_frsize * found.f_bavail),
        }

    def _network(self) -> Mapping[str, float]:
        received = sent = 0
        lines = _text(f"{self._proc}/net/dev").splitlines()[2:]
        for line in lines:
            name, _, counts = line.partition(":")
            numbers = counts.split()
            # Bridges and the ends of containers carry the same bytes again.
            if (
                name.strip() != _LOOPBACK
                and len(numbers) > 8
                and os.path.exists(  # noqa: PTH110  # called often
                    f"{self._sys}/class/net/{name.strip()}/device"
                )
            ):
                received, sent = received + int(numbers[0]), sent + int(numbers[8])
        if not lines:
            return {}
        return {
            "pai_node_network_received_bytes_total": float(received),
            "pai_node_network_sent_bytes_total": float(sent),
        }

    def _blocks(self) -> Mapping[str, float]:
        read = written = 0
        lines = [line.split() for line in _text(f"{self._proc}/diskstats").splitlines()]
        for fields in lines:
            if len(fields) > 9 and self._is_disk(fields[2]):
                read, written = read + int(fields[5]) * _SECTOR, written + int(fields[9]) * _SECTOR
        if not lines:
            return {}
        return {"pai_node_disk_read_bytes_total": float(read), "pai_node_disk_written_bytes_total": float(written)}

    def _is_disk(self, name: str) -> bool:
        """Return whether a block device is a disk, and no partition of one."""
        return not name.startswith(_VIRTUAL_DISKS) and os.path.isdir(f"{self._sys}/block/{name}")  # noqa: PTH112


def of_process(proc: str = "/proc/self") -> Iterator[tuple[str, float]]:
    """Yield the processor time and memory of this process, by the names that Prometheus's own clients use."""
    fields = _text(f"{proc}/stat").rpartition(")")[2].split()
    if len(fields) > 21:
        yield "process_cpu_seconds_total", (int(fields[11]) + int(fields[12])) / _TICKS
        yield "process_resident_memory_bytes", float(int(fields[21]) * _PAGE)


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
