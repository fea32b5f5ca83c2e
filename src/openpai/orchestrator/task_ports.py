"""Which network ports are handed out on which machine. No two live tasks of one machine share a port.

Ports are decided at placement, before anything starts, so every task can know where its peers listen. The
range ends below the ports that Linux lends to outgoing connections. Numbers go round: a port that was just given
back, or that turned out to be taken by a stranger, is the last to be tried again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

PORT_FIRST: Final = 15_000
PORT_END: Final = 32_768


class PortBook:
    """Hands out ports per network address: nodes that share a machine share its ports."""

    def __init__(self, first: int = PORT_FIRST, end: int = PORT_END) -> None:
        self._first = first
        self._end = end
        self._taken: dict[str, set[int]] = {}
        self._next: dict[str, int] = {}

    def take(self, address: str, labels: Mapping[str, int]) -> dict[str, tuple[int, ...]] | None:
        """Return that many free ports for each label, or None, taking nothing, when there are not enough."""
        taken = self._taken.setdefault(address, set())
        if sum(labels.values()) > self._end - self._first - len(taken):
            return None
        return {label: tuple(self._take_one(address, taken) for _ in range(count)) for label, count in labels.items()}

    def mark(self, address: str, ports: Iterable[int]) -> None:
        """Learn that these ports are in use, as after a restart."""
        self._taken.setdefault(address, set()).update(ports)

    def give_back(self, address: str, ports: Iterable[int]) -> None:
        """Take these ports back; unknown ones are ignored."""
        self._taken.setdefault(address, set()).difference_update(ports)

    def _take_one(self, address: str, taken: set[int]) -> int:
        port = self._next.get(address, self._first)
        while port in taken:
            port = self._after(port)
        taken.add(port)
        self._next[address] = self._after(port)
        return port

    def _after(self, port: int) -> int:
        return port + 1 if port + 1 < self._end else self._first
