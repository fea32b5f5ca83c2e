"""Measures how good guesses were: of run times when a gang finishes, and of start times when it starts.

Each gang that finishes is compared with the run time guessed for it. Each gang that starts is compared with the first
estimate that was shown of its start, if one was. The latest ones of each virtual cluster count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from openpai.scheduler.model import Accuracy, Estimate

LATEST: Final = 500
"""The number of latest guesses that count in a virtual cluster."""

NEAR_MS: Final = 60_000
"""A start this near to the estimated range is within it: it also takes time to free and to check resources."""

SHOWN_MAX: Final = 20_000
"""The number of estimates to remember of waiting gangs; beyond it, the oldest is forgotten."""


class Guesses:
    """The latest guesses of every virtual cluster, and the estimates of gangs that wait."""

    def __init__(self) -> None:
        self._runs: dict[str, deque[float]] = {}
        """By virtual cluster, how many times longer or shorter gangs ran than guessed."""
        self._starts: dict[str, deque[bool]] = {}
        self._shown: dict[str, tuple[int, int]] = {}
        """The range of the first estimate that was shown, by waiting gang."""
        self.version = 0
        """Grows with every start that is compared."""

    def note_run(self, name: str, guess_ms: int, ran_ms: int) -> None:
        """Compare the run time of a finished gang with the guess."""
        ratio = max(1, guess_ms) / max(1, ran_ms)
        self._runs.setdefault(name, deque(maxlen=LATEST)).append(round(max(ratio, 1 / ratio), 3))

    def note_shown(self, gang: str, estimate: Estimate | None) -> None:
        """Record an estimate of a waiting gang's start, unless an earlier one was shown or it has no end."""
        if estimate is None or estimate.earliest_ms is None or estimate.latest_ms is None or gang in self._shown:
            return
        if len(self._shown) >= SHOWN_MAX:
            del self._shown[next(iter(self._shown))]
        self._shown[gang] = estimate.earliest_ms, estimate.latest_ms

    def note_start(self, gang: str, name: str, now_ms: int) -> None:
        """Compare a start with the estimate of it, if there was one."""
        shown = self._shown.pop(gang, None)
        if shown is not None:
            is_within = shown[0] - NEAR_MS <= now_ms <= shown[1] + NEAR_MS
            self._starts.setdefault(name, deque(maxlen=LATEST)).append(is_within)
            self.version += 1

    def forget(self, gang: str) -> None:
        """Forget the estimate of a gang that will not start, or was changed."""
        self._shown.pop(gang, None)

    def of(self, name: str) -> Accuracy:
        """Return how good the latest guesses about a virtual cluster were."""
        return _accuracy(self._starts.get(name, ()), self._runs.get(name, ()))

    def of_all(self) -> Accuracy:
        """Return how good the latest guesses about all virtual clusters were."""
        starts, runs = self._starts.values(), self._runs.values()
        return _accuracy([each for some in starts for each in some], [each for some in runs for each in some])

    def starts(self) -> dict[str, str]:
        """Return whether the latest starts were within their estimates, as `1` and `0` by virtual cluster."""
        return {name: "".join("01"[each] for each in found) for name, found in sorted(self._starts.items())}

    def load_starts(self, known: Mapping[str, str]) -> None:
        """Restore the result of `starts`."""
        self._starts = {name: deque((each == "1" for each in found), LATEST) for name, found in known.items()}

    def dump(self) -> dict[str, Any]:
        """Return everything as plain data."""
        runs = {name: list(found) for name, found in self._runs.items()}
        return {
            "runs": runs,
            "starts": self.starts(),
            "shown": {gang: list(span) for gang, span in self._shown.items()},
        }

    def load(self, data: Mapping[str, Any]) -> None:
        """Restore the result of `dump`."""
        self._runs = {name: deque(found, LATEST) for name, found in data["runs"].items()}
        self.load_starts(data["starts"])
        self._shown = {gang: (span[0], span[1]) for gang, span in data["shown"].items()}


def _accuracy(starts: Iterable[bool], runs: Iterable[float]) -> Accuracy:
    was_within, factors = list(starts), sorted(runs)
    median = factors[len(factors) // 2] if factors else None
    return Accuracy(len(was_within), sum(was_within), len(factors), sum(factor <= 2 for factor in factors), median)
