"""When the queue of a virtual cluster must be looked through even if nothing is freed there."""

from __future__ import annotations

from collections.abc import Mapping


class LookTimes:
    """The next time of each virtual cluster that has one, and the earliest of them, which every round asks for."""

    def __init__(self, by_name: Mapping[str, int] | None = None) -> None:
        self._by_name = dict(by_name or {})
        self.first_ms: int | None = min(self._by_name.values(), default=None)
        """The earliest of all; None if there is none."""

    def add(self, virtual_cluster: str, at_ms: int) -> None:
        """Look through a queue at that time, unless that is to happen before."""
        known_ms = self._by_name.get(virtual_cluster)
        if known_ms is None or at_ms < known_ms:
            self._by_name[virtual_cluster] = at_ms
            if self.first_ms is None or at_ms < self.first_ms:
                self.first_ms = at_ms

    def take_due(self, now_ms: int) -> list[str]:
        """Return, once, the virtual clusters whose time has come."""
        if self.first_ms is None or now_ms < self.first_ms:
            return []
        due = [name for name, at_ms in self._by_name.items() if now_ms >= at_ms]
        for name in due:
            del self._by_name[name]
        self.first_ms = min(self._by_name.values(), default=None)
        return due

    def dump(self) -> dict[str, int]:
        """Return them as plain data."""
        return dict(self._by_name)
