"""Checkpoints stay while their job may run again, and go with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from openpai.logs.checkpoints import KeptCheckpoints
from tests.clocks import HandClock

NOW_MS = 10_000


@dataclass
class Row:
    phase: str
    ended_at_ms: int | None = None
    archived_at_ms: int | None = None


class Jobs:
    def __init__(self, rows: dict[str, Row]) -> None:
        self.rows = rows

    async def job_of_id(self, job: str) -> Row | None:
        return self.rows.get(job)


@pytest.mark.parametrize(("kept_ms", "left"), [(5_000, "new,runs,stranger"), (0, "new,old,runs,stranger")])
async def test_what_is_archived_or_old_is_removed_and_nothing_else(tmp_path: Path, kept_ms: int, left: str) -> None:
    rows: Any = {
        "runs": Row("running"),
        "new": Row("failed", NOW_MS - 4_000),
        "old": Row("succeeded", NOW_MS - 6_000),
        "archived": Row("stopped", NOW_MS, NOW_MS),
    }
    for name in (*rows, "stranger"):
        (tmp_path / name / "w.0").mkdir(parents=True)
    jobs: Any = Jobs(rows)
    kept = KeptCheckpoints(tmp_path, jobs, HandClock(NOW_MS), kept_ms)
    assert await kept.expire() == (2 if kept_ms else 1)
    assert ",".join(sorted(path.name for path in tmp_path.iterdir())) == left  # noqa: ASYNC240
    kept.remove(["new"])
    assert not (tmp_path / "new").exists()


async def test_a_server_without_checkpoints_has_nothing_to_remove(tmp_path: Path) -> None:
    jobs: Any = Jobs({})
    assert await KeptCheckpoints(tmp_path / "none", jobs, HandClock(NOW_MS), 1).expire() == 0
