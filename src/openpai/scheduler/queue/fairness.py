"""How much every user of a virtual cluster used, where what lies back counts less: it fades to a half in a fixed time.

What runs counts as it runs. Because all use fades alike, what nobody adds to never changes its order, and nothing has
to be brought up to date until somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log
from typing import Final

HALF_LIFE_MS: Final = 24 * 60 * 60 * 1000

GRAIN_MS: Final = 60_000
"""Users whose use differs by less than a device's minute are equal, so that age decides between them."""

Owner = tuple[str, str]
"""A virtual cluster and a user of it."""


class Ledger:
    """Device-milliseconds used, by virtual cluster and user."""

    def __init__(self, half_life_ms: int | None = HALF_LIFE_MS) -> None:
        self.half_life_ms = half_life_ms
        self._used: dict[Owner, tuple[float, int]] = {}
        """What was used, faded to a time."""
        self._held: dict[Owner, int] = {}
        """Devices held now."""
        self._coming: dict[Owner, int] = {}
        """Devices held, those taken this very moment included."""
        self._given = 0
        self._minutes: dict[Owner, int] = {}
        """Faded use, worked out already for the time `_minutes_at`."""
        self._minutes_at: int | None = None

    def set_half_life(self, half_life_ms: int | None, now_ms: int) -> None:
        """Let use fade at another pace from now on; None compares no use."""
        for owner in list(self._used):
            self._used[owner] = self._amount(owner, now_ms), now_ms
        self.half_life_ms = half_life_ms
        self._minutes_at = None

    def use(self, owner: Owner, now_ms: int) -> int:
        """Return an owner's faded use in minutes of a device; 0 for everybody if use is not compared.

        Each device held counts as the minute to come, so that users who begin at one moment take turns.
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
        """Return how often devices were given or returned."""
        return self._given

    def expect(self, owner: Owner, devices: int) -> None:
        """Add devices to what an owner holds (remove them if negative)."""
        self._coming[owner] = self._coming.get(owner, 0) + devices
        self._given += 1

    def hold(self, owner: Owner, devices: int, now_ms: int) -> None:
        """Let an owner hold so many devices more (fewer if negative) from now on."""
        self._used[owner] = self._amount(owner, now_ms), now_ms
        self._minutes.pop(owner, None)
        self._held[owner] = self._held.get(owner, 0) + devices

    def learn(self, owner: Owner, device_ms: float, at_ms: int) -> None:
        """Add what was used before anyone counted here."""
        self._used[owner] = self._amount(owner, at_ms) + device_ms, at_ms
        self._minutes.pop(owner, None)

    def dump(self, now_ms: int) -> list[list[object]]:
        """Return everybody's use, faded to now, as plain data."""
        amounts = [(owner, self._amount(owner, now_ms)) for owner in sorted(self._used)]
        return [[*owner, amount] for owner, amount in amounts if amount]

    def load(self, rows: Iterable[Iterable[object]], at_ms: int) -> None:
        """Learn what was dumped at that time."""
        for name, user, used in rows:
            self.learn((str(name), str(user)), float(str(used)), at_ms)

    def _amount(self, owner: Owner, now_ms: int) -> float:
        used, at_ms = self._used.get(owner, (0.0, now_ms))
        passed = max(0, now_ms - at_ms)
        held = self._held.get(owner, 0)
        if self.half_life_ms is None or not passed:
            return used + held * passed
        left: float = 0.5 ** (passed / self.half_life_ms)
        return used * left + held * (1 - left) * self.half_life_ms / log(2)
