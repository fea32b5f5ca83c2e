"""Snapshots that earlier versions took are loaded, and cells that were kept then are chosen again."""

from __future__ import annotations

import json
from pathlib import Path

from openpai.scheduler.model import Place
from openpai.scheduler.queue.replay import answer, resume
from openpai.scheduler.queue.scheduler import HivedScheduler
from tests.scheduling.invariants import audit
from tests.unit.scheduler.queue.queues import HOUR_MS, LONG_MS, gang, placed


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


def test_a_snapshot_that_does_not_say_what_was_looked_at_is_loaded(scheduler: HivedScheduler) -> None:
    """Version 0.2 wrote such snapshots at first: everything is looked at again."""
    scheduler.add(gang("runs", 2, time_limit_ms=HOUR_MS + 60_000))
    assert placed(scheduler, HOUR_MS) == ["runs"]
    scheduler.add(gang("whole", 4, 4, submitted_at_ms=HOUR_MS // 2))
    assert placed(scheduler, LONG_MS - 1000) == []
    scheduler.add(gang("unlimited", 2, submitted_at_ms=LONG_MS))
    assert placed(scheduler, LONG_MS) == []
    assert scheduler.state.kept["a"].is_withheld
    data = json.loads(json.dumps(scheduler.snapshot()))
    for key in ("skus", "changes", "ended", "memory"):
        del data[key]
    ((name, user, used, since_ms, held),) = data["use"]
    data["use"] = [[name, user, used + held * (LONG_MS - since_ms)]]
    again = resume(data)
    assert again.state.kept == scheduler.state.kept
    assert again.state.running.ledger.use(("a", ""), 2 * LONG_MS) > again.state.running.ledger.use(("a", ""), LONG_MS)
    assert placed(again, LONG_MS) == []
    again_ms = scheduler.look_again_ms()
    assert again_ms is not None
    assert again.look_again_ms() == again_ms
    assert placed(again, again_ms) == placed(scheduler, again_ms) == ["unlimited"]
