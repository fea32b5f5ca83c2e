"""Counts the requests of this server, and how long each took until its answer began, by route.

A route is its path with the names of its parameters, so that clients cannot make up labels.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, Final

from openpai.series.labels import Labels
from openpai.series.model import Reading

BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER: Final = "other"


class RequestTimes:
    """What was counted since the server started."""

    def __init__(self) -> None:
        self._counts = Counter[tuple[str, str, str]]()
        self._seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        self.buckets = [0] * (len(BOUNDS_S) + 1)
        """How many requests took at most each of the bounds, and how many took longer."""
        self.seconds = 0.0

    def add(self, scope: Any, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        # Paths outside of the API, such as files of the portal, are one.
        route = getattr(scope.get("route"), "path", _OTHER)
        method = scope["method"] if scope["method"] in _METHODS else _OTHER
        self._counts[route, method, f"{status // 100}xx"] += 1
        self._seconds[route, method] += seconds
        self.buckets[bisect_left(BOUNDS_S, seconds)] += 1
        self.seconds += seconds

    def readings(self) -> Iterator[Reading]:
        """Yield the counts."""
        # Copies: whoever measures pauses for requests, of which the first of a route adds to both.
        for (route, method, status), count in list(self._counts.items()):
            labels = Labels.of({"route": route, "method": method, "status": status})
            yield Reading(labels, {"pai_api_requests_total": float(count)})
        for (route, method), seconds in list(self._seconds.items()):
            labels = Labels.of({"route": route, "method": method})
            yield Reading(labels, {"pai_api_request_seconds_total": seconds})
