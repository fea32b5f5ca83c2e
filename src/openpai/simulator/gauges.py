"""Integrates amounts that change over time: their mean, in all and in equal spans of time.

A gauge costs the same per change however long the replay lasts. Nothing is sampled, so no change between two samples is
missed.
"""

from __future__ import annotations


class Gauge:
    """An amount that holds until it changes, and its mean in each of some equal spans of time."""

    __slots__ = ("_bucket_ms", "_buckets", "_ends_ms", "_limit_ms", "_place", "_since_ms", "level")

    def __init__(self, bucket_ms: int, spans: int) -> None:
        """Measure `spans` spans of `bucket_ms` from time 0 on; later changes are not measured."""
        self.level = 0
        self._bucket_ms = bucket_ms
        self._buckets: list[int] = [0] * spans
        self._limit_ms = bucket_ms * spans
        self._since_ms = 0
        self._place = 0
        """The span in which the amount changed last, and its end."""
        self._ends_ms = bucket_ms

    def add(self, change: int, now_ms: int) -> None:
        """Change the amount from now on."""
        if now_ms >= self._ends_ms:
            self._settle(now_ms)
        elif now_ms > self._since_ms:
            # As below; most changes are of a span that goes on.
            self._buckets[self._place] += self.level * (now_ms - self._since_ms)
            self._since_ms = now_ms
        self.level += change

    def set(self, level: int, now_ms: int) -> None:
        """Set the amount from now on."""
        if now_ms > self._since_ms:
            self._settle(now_ms)
        self.level = level

    def _settle(self, now_ms: int) -> None:
        """Add the time since the last change to its spans."""
        begin, self._since_ms = self._since_ms, now_ms
        level = self.level
        if now_ms < self._ends_ms:
            self._buckets[self._place] += level * (now_ms - begin)
            return
        self._place = min(now_ms, self._limit_ms - 1) // self._bucket_ms
        self._ends_ms = (self._place + 1) * self._bucket_ms
        if not level:
            return
        end = min(now_ms, self._limit_ms)
        if begin >= end:
            return
        size, buckets = self._bucket_ms, self._buckets
        first, last = begin // size, end // size
        if first == last:
            buckets[first] += level * (end - begin)
            return
        buckets[first] += level * ((first + 1) * size - begin)
        for at in range(first + 1, last):
            buckets[at] += level * size
        if end > last * size:
            buckets[last] += level * (end - last * size)

    def series(self) -> list[float]:
        """Return the mean amount in each span; the current amount lasts to the end of the last span."""
        self._settle(max(self._limit_ms, self._since_ms))
        return [total / self._bucket_ms for total in self._buckets]

    def mean(self) -> float:
        """Return the mean amount over all spans."""
        series = self.series()
        return sum(series) / len(series)
