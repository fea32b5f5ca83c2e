"""The values of the present hour, in memory: one row per round, one column per series.

A row is an array of 32-bit numbers and nothing else, so 12,000 series take 17 MB an hour. A series gets its column when
it is first measured and keeps it until the block is closed; jobs that come and go make the rows wider, and a block is
closed early when they are too wide.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from openpai.series.labels import Labels, Matcher, accepted
from openpai.series.model import MISSING
from openpai.series.retention import HOUR_MS, MINUTE_MS
from openpai.series.rounds import JOB, Round

STEP_MS: Final = 10_000
CELLS_MAX: Final = 8_000_000
"""Values of a block, beyond which it is closed early; 4 bytes each."""
ALIGNED_MS: Final = 5 * MINUTE_MS
_BACK_MS: Final = 60_000
"""By how much a clock may go back without a new block."""

Key = tuple[Labels, str]


class OpenBlock:
    """The rounds since `start_ms`, at most an hour of them."""

    def __init__(self, at_ms: int) -> None:
        self.start_ms = at_ms // ALIGNED_MS * ALIGNED_MS
        self._end_ms = (at_ms // HOUR_MS + 1) * HOUR_MS
        self.columns: dict[Labels, dict[str, int]] = {}
        self._of_jobs: defaultdict[str, list[Labels]] = defaultdict(list)
        self.width = 0
        self.slots: list[int] = []
        self.rows: list[array[float]] = []

    def takes(self, at_ms: int) -> bool:
        """Return whether a round of this time belongs into this block; otherwise it needs a new one."""
        if not self.start_ms <= at_ms < self._end_ms:
            return False
        if at_ms % ALIGNED_MS < STEP_MS and self.width * len(self.rows) > CELLS_MAX:
            return False
        return not self.slots or at_ms > self.start_ms + self.slots[-1] * STEP_MS - _BACK_MS

    def add(self, now: Round) -> tuple[int, list[Key], array[float]] | None:
        """Add a round; return its time, the new columns and the row, or None if its time is not after the last."""
        slot = (now.at_ms - self.start_ms) // STEP_MS
        if self.slots and slot <= self.slots[-1]:
            return None
        new: list[Key] = []
        row = array("f", [MISSING]) * self.width
        for labels, values in now.values.items():
            columns = self._columns_of(labels)
            for name, value in values.items():
                column = columns.get(name)
                if column is None:
                    columns[name], self.width = self.width, self.width + 1
                    new.append((labels, name))
                    row.append(value)
                else:
                    row[column] = value
        self.slots.append(slot)
        self.rows.append(row)
        return self.start_ms + slot * STEP_MS, new, row

    def restore(self, at_ms: int, new: Sequence[Key], row: array[float]) -> None:
        """Add what `add` returned before a restart."""
        for labels, name in new:
            self._columns_of(labels)[name] = self.width
            self.width += 1
        self.slots.append((at_ms - self.start_ms) // STEP_MS)
        self.rows.append(row[: self.width])

    def _columns_of(self, labels: Labels) -> dict[str, int]:
        columns = self.columns.get(labels)
        if columns is None:
            columns = self.columns[labels] = {}
            self._of_jobs[labels.get(JOB)].append(labels)
        return columns

    def matching(self, name: str, matchers: Sequence[Matcher]) -> Iterator[tuple[Labels, int]]:
        """Yield the labels and columns of the series with this name that match."""
        jobs = next((one.values for one in matchers if one.label == JOB and one.operator == "="), None)
        # A chart of one job must not look at the labels of all.
        among = self.columns if jobs is None else [one for job in sorted(jobs) for one in self._of_jobs.get(job, ())]
        for labels in among:
            column = self.columns[labels].get(name)
            if column is not None and accepted(matchers, labels):
                yield labels, column

    @property
    def length(self) -> int:
        """Return the number of steps from the start to the last round."""
        return self.slots[-1] + 1 if self.slots else 0

    def values(self, column: int, first: int = 0) -> list[float]:
        """Return the values of a column from a step on, NaN for what is missing."""
        found = [MISSING] * max(0, self.length - first)
        for slot, row in zip(self.slots, self.rows, strict=True):
            if slot >= first and column < len(row):
                found[slot - first] = row[column]
        return found

    def chunks(self, size: int = 240) -> Iterator[list[tuple[Labels, dict[str, list[float]]]]]:
        """Yield the values of all series, by labels, about `size` series at a time."""
        chunk, held = [], 0
        for labels, columns in list(self.columns.items()):
            chunk.append((labels, {name: self.values(column) for name, column in columns.items()}))
            held += len(columns)
            if held >= size:
                yield chunk
                chunk, held = [], 0
        if chunk:
            yield chunk
