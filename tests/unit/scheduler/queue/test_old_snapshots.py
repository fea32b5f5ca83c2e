"""Snapshots that earlier versions took are loaded, and cells that were kept then are chosen again."""

from __future__ import annotations

import json
from pathlib import Path

from openpai.scheduler.model import Place
from openpai.scheduler.queue.replay import answer, resume
from tests.scheduling.invariants import audit


def test_a_snapshot_of_an_earlier_version_with_kept_cells_is_loaded() -> None:
    text = Path(__file__).with_name("snapshot_with_kept_cells.json").read_text()
    data = json.loads(text)
    assert data["kept"]
    scheduler = resume(json.loads(text))
    assert scheduler.state.kept == {}
    assert audit(scheduler.cluster) == []
    assert set(scheduler.state.running.gangs) == {"run0", "run1", "run2", "lends"}
    assert set(scheduler.state.reserving) == {"grouped"}
    # The gang that had cells kept for it has waited for long enough, so it gets others at once.
    assert not any(isinstance(each, Place) for each in scheduler.decide(data["now_ms"] + 1, 10))
    assert scheduler.state.kept["a"].gang == "wants"
    assert answer(data, "later")["decision"] == "wait"
    again = resume(json.loads(json.dumps(scheduler.snapshot())))
    assert again.state.kept == scheduler.state.kept
    for name in ("run0", "run1"):
        scheduler.release(name)
    assert "wants" in {each.gang for each in scheduler.decide(data["now_ms"] + 2, 10) if isinstance(each, Place)}
