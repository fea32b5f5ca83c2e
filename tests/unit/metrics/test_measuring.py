"""A round of measuring takes what the catalogue of metrics knows, and survives its sources."""

from __future__ import annotations

from pathlib import Path

from openpai.metrics.keeping import KeptHistory
from openpai.metrics.service import MeasuredMetrics
from openpai.series.labels import NO_LABELS
from openpai.series.model import Reading
from openpai.system.supervision import failures


class Clock:
    """A clock that stands still."""

    def now_ms(self) -> int:
        return 1_767_225_600_000


async def test_a_value_that_is_not_in_the_catalogue_is_a_failure_that_is_counted(tmp_path: Path) -> None:
    metrics = MeasuredMetrics(Clock(), KeptHistory(tmp_path / "metrics.db"))
    metrics.add_source("strange", lambda: [Reading(NO_LABELS, {"pai_strange": 1.0})])
    metrics.add_source("known", lambda: [Reading(NO_LABELS, {"pai_leads": 1.0})])
    await metrics.open()
    before = failures().get("measure strange", 0)
    await metrics.measure()
    assert failures()["measure strange"] == before + 1
    assert metrics.latest("pai_strange") == ()
    assert [each.value for each in metrics.latest("pai_leads")] == [1.0]
    await metrics.close()
