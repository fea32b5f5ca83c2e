"""Allocates network ports to tasks. No two live tasks on one node share a port.

Ports are allocated at placement, before anything starts, so every task knows where its peers listen. The range ends
below the ports that Linux uses for outgoing connections. Numbers go round: a port that was just released, or that
another program uses, is the last to be tried again. Each server begins elsewhere in the range, because other servers of
the same machine do not know which ports this one allocates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

PORT_FIRST: Final = 15_000
PORT_END: Final = 32_768


# The first task of each of a thousand nodes gets the same ports.
@lru_cache(maxsize=4096)
def _shared(ports: tuple[tuple[str, tuple[int, ...]], ...]) -> Mapping[str, tuple[int, ...]]:
    return MappingProxyType(dict(ports))


class PortBook:
    """The allocated ports by network address: nodes that share an address share its ports."""

    def __init__(self, first: int = PORT_FIRST, end: int = PORT_END, begin: int | None = None) -> None:
        """`begin` is the port to try first; the first of all by default."""
        self._first = first
        self._end = end
        self._begin = first if begin is None else begin
        self._taken: dict[str, set[int]] = {}
        self._next: dict[str, int] = {}

    def take(self, address: str, labels: Mapping[str, int]) -> Mapping[str, tuple[int, ...]] | None:
        """Return that many free ports for each label, or None, allocating nothing, if there are not enough."""
        taken = self._taken.setdefault(address, set())
        if sum(labels.values()) > self._end - self._first - len(taken):
            return None
        found = [(label, tuple([self._take_one(address, taken) for _ in range(n)])) for label, n in labels.items()]
        return _shared(tuple(found))

    def mark(self, address: str, ports: Iterable[int]) -> None:
        """Mark these ports as allocated, as after a restart."""
        self._taken.setdefault(address, set()).update(ports)

    def give_back(self, address: str, ports: Iterable[int]) -> None:
        """Release these ports; unknown ones are ignored."""
        self._taken.setdefault(address, set()).difference_update(ports)

    def _take_one(self, address: str, taken: set[int]) -> int:
        port = self._next.get(address, self._begin)
        while port in taken:
            port = self._after(port)
        taken.add(port)
        self._next[address] = self._after(port)
        return port

    def _after(self, port: int) -> int:
        return port + 1 if port + 1 < self._end else self._first
