"""Amounts that change over time, added up as they change: how much on average, and how it went.

A gauge costs the same per change however long the replay lasts; nothing is sampled, so nothing is missed between two
samples.
"""

from __future__ import annotations


class Gauge:
    """An amount that holds until it changes, and its mean in each of many equal spans of time."""

    __slots__ = ("_bucket_ms", "_buckets", "_since_ms", "level", "peak")

    def __init__(self, bucket_ms: int) -> None:
        self.level = 0
        self.peak = 0
        self._bucket_ms = bucket_ms
        self._buckets: list[int] = [0]
        self._since_ms = 0

    def add(self, change: int, now_ms: int) -> None:
        """Change the amount from now on."""
        if now_ms > self._since_ms:
            self._settle(now_ms)
        self.level += change
        if self.level > self.peak:
            self.peak = self.level

    def set(self, level: int, now_ms: int) -> None:
        """Say what the amount is from now on."""
        if level != self.level:
            self.add(level - self.level, now_ms)

    def _settle(self, now_ms: int) -> None:
        """Add what passed since the last change to its spans."""
        begin, self._since_ms = self._since_ms, now_ms
        size, buckets, level = self._bucket_ms, self._buckets, self.level
        last = now_ms // size
        if last >= len(buckets):
            buckets.extend([0] * (last + 1 - len(buckets)))
        if not level:
            return
        first = begin // size
        if first == last:
            buckets[last] += level * (now_ms - begin)
            return
        buckets[first] += level * ((first + 1) * size - begin)
        for at in range(first + 1, last):
            buckets[at] += level * size
        buckets[last] += level * (now_ms - last * size)

    def series(self, until_ms: int) -> list[float]:
        """Return the mean amount in each whole span of time up to `until_ms`."""
        self._settle(max(until_ms, self._since_ms))
        return [total / self._bucket_ms for total in self._buckets[: until_ms // self._bucket_ms]]

    def mean(self, until_ms: int) -> float:
        """Return the mean amount over the whole spans of time up to `until_ms`."""
        series = self.series(until_ms)
        return sum(series) / len(series) if series else 0.0
