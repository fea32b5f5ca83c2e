"""Counts how much each user of a virtual cluster used, where past use counts half after each half-life.

Running gangs count while they run. Because all use decays at the same rate, the order of users without new use never
changes, and use is computed only when it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log
from typing import Any, Final

LOG_2: Final = log(2)

HALF_LIFE_MS: Final = 24 * 60 * 60 * 1000

GRAIN_MS: Final = 60_000
"""Users whose use differs by less than a device-minute are equal, so that age decides between them."""

Owner = tuple[str, str]
"""A virtual cluster and a user of it."""


class Ledger:
    """Device-milliseconds used, by virtual cluster and user."""

    def __init__(self, half_life_ms: int | None = HALF_LIFE_MS) -> None:
        self.half_life_ms = half_life_ms
        self._used: dict[Owner, tuple[float, int]] = {}
        """Use, decayed to the given time."""
        self._held: dict[Owner, int] = {}
        """Devices held now."""
        self._coming: dict[Owner, int] = {}
        """Devices held, including those taken at this moment."""
        self._given = 0
        self._minutes: dict[Owner, int] = {}
        """Decayed use, cached for the time `_minutes_at`."""
        self._minutes_at: int | None = None

    def set_half_life(self, half_life_ms: int | None, now_ms: int) -> None:
        """Change the half-life from now on; None ignores use."""
        for owner in list(self._used):
            self._used[owner] = self._amount(owner, now_ms), now_ms
        self.half_life_ms = half_life_ms
        self._minutes_at = None

    def use(self, owner: Owner, now_ms: int) -> int:
        """Return an owner's decayed use in device-minutes; 0 for all owners if use is ignored.

        Each device held counts a minute in advance, so that users who start at the same moment take turns.
        """
        if self.half_life_ms is None:
            return 0
        if self._minutes_at != now_ms:
            self._minutes, self._minutes_at = {}, now_ms
        used = self._minutes.get(owner)
        if used is None:
            used = self._minutes[owner] = int(self._amount(owner, now_ms) // GRAIN_MS) if owner in self._used else 0
        return used + self._coming.get(owner, 0)

    def given(self) -> int:
        """Return how often devices were granted or returned."""
        return self._given

    def expect(self, owner: Owner, devices: int) -> None:
        """Add devices to what an owner holds (remove them if negative)."""
        self._coming[owner] = self._coming.get(owner, 0) + devices
        self._given += 1

    def hold(self, owner: Owner, devices: int, now_ms: int) -> None:
        """Add devices to what an owner holds from now on (remove them if negative)."""
        self._used[owner] = self._amount(owner, now_ms), now_ms
        self._minutes.pop(owner, None)
        self._held[owner] = self._held.get(owner, 0) + devices

    def learn(self, owner: Owner, device_ms: float, at_ms: int) -> None:
        """Add use from before this ledger was created."""
        self._used[owner] = self._amount(owner, at_ms) + device_ms, at_ms
        self._minutes.pop(owner, None)

    def dump(self) -> list[list[Any]]:
        """Return the use of all owners up to a time, that time, and what they hold from then on, as plain data."""
        rows = [[*owner, *self._used[owner], self._held.get(owner, 0)] for owner in sorted(self._used)]
        return [row for row in rows if row[2] or row[4]]

    def load(self, rows: Iterable[Sequence[Any]], now_ms: int) -> None:
        """Restore the result of `dump`; rows of earlier versions only have the use up to `now_ms`."""
        for name, user, used, *since in rows:
            at_ms, held = since or (now_ms, 0)
            self._used[name, user], self._held[name, user] = (float(used), at_ms), held

    def _amount(self, owner: Owner, now_ms: int) -> float:
        used, at_ms = self._used.get(owner, (0.0, now_ms))
        passed = max(0, now_ms - at_ms)
        held = self._held.get(owner, 0)
        if self.half_life_ms is None or not passed:
            return used + held * passed
        left: float = 0.5 ** (passed / self.half_life_ms)
        return used * left + held * (1 - left) * self.half_life_ms / LOG_2 if held else used * left
