"""What is withheld from others for a gang that waited long, and until when."""

from __future__ import annotations

from collections.abc import Callable

from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Node
from openpai.scheduler.queue.scheduler import HivedScheduler
from tests.scheduling.invariants import audit
from tests.unit.scheduler.queue.queues import HOUR_MS, LONG_MS, gang, placed

MINUTE_MS = 60_000


def test_closed_cells_are_kept_also_while_opportunistic_gangs_use_them(text_of_racks: Callable[..., str]) -> None:
    scheduler = HivedScheduler(read_config(text_of_racks(1, {"a": {"RACK.NODE": 2}})))
    for name in scheduler.core.cluster.node_cells:
        scheduler.set_node(Node(name, 16, 32768, 4))
    scheduler.add(gang("runs", 4))
    assert placed(scheduler) == ["runs"]
    scheduler.add(gang("whole", 4, 4, submitted_at_ms=1))
    assert placed(scheduler, HOUR_MS) == []
    now_ms = 2000 * HOUR_MS  # its cells are closed by now
    assert placed(scheduler, now_ms) == []
    scheduler.add(gang("guest", 4, priority=-1, submitted_at_ms=now_ms))
    assert placed(scheduler, now_ms) == ["guest"]
    scheduler.add(gang("younger", 4, submitted_at_ms=now_ms))
    assert scheduler.decide(now_ms, 100) == ()
    scheduler.release("runs")
    assert [decision.gang for decision in scheduler.decide(now_ms + HOUR_MS, 100)] == ["whole"]
    assert audit(scheduler.core.cluster) == []


def test_cells_that_were_idle_for_too_long_are_opened_though_nothing_else_happens(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("runs", 2, time_limit_ms=HOUR_MS + MINUTE_MS))
    assert placed(scheduler, HOUR_MS) == ["runs"]
    scheduler.add(gang("whole", 4, 4, submitted_at_ms=HOUR_MS // 2))
    assert placed(scheduler, LONG_MS - 1000) == []
    scheduler.add(gang("unlimited", 2, submitted_at_ms=LONG_MS))
    assert placed(scheduler, LONG_MS) == []
    # The gang that should have ended runs on.
    again_ms = scheduler.look_again_ms()
    assert again_ms is not None
    assert LONG_MS + 2 * MINUTE_MS < again_ms < LONG_MS + 10 * MINUTE_MS
    assert placed(scheduler, again_ms) == ["unlimited"]


def test_what_is_kept_holds_back_no_gang_that_is_more_urgent(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("runs", 2, time_limit_ms=HOUR_MS + MINUTE_MS))
    assert placed(scheduler, HOUR_MS) == ["runs"]
    scheduler.add(gang("whole", 4, 4, submitted_at_ms=HOUR_MS // 2))
    assert placed(scheduler, LONG_MS - 1000) == []
    scheduler.add(gang("unlimited", 2, submitted_at_ms=LONG_MS))
    assert placed(scheduler, LONG_MS) == []
    # One like it found no room just now, only because cells are withheld.
    scheduler.add(gang("urgent", 2, submitted_at_ms=LONG_MS, rank=1))
    assert placed(scheduler, LONG_MS + 1) == ["urgent"]


def test_cells_that_are_opened_are_offered_at_once_also_to_other_virtual_clusters(scheduler: HivedScheduler) -> None:
    """Nothing was freed for a gang that may borrow, so it was not considered before the cells were opened."""
    scheduler.add(gang("runs", 2, time_limit_ms=HOUR_MS + MINUTE_MS))
    scheduler.add(gang("b", 4, virtual_cluster="b"))
    scheduler.add(gang("on the node that nobody was promised", 4, priority=-1))
    assert len(placed(scheduler, HOUR_MS)) == 3
    scheduler.add(gang("whole", 4, 4, submitted_at_ms=HOUR_MS // 2))
    assert placed(scheduler, LONG_MS - 1000) == []
    scheduler.add(gang("unlimited", 2, submitted_at_ms=LONG_MS))
    scheduler.add(gang("borrower", 4, virtual_cluster="b", submitted_at_ms=LONG_MS, is_interruptible=True))
    assert placed(scheduler, LONG_MS) == []
    almost_ms = (scheduler.look_again_ms() or 0) - 1000
    scheduler.add(gang("too large for now", 4, 3, submitted_at_ms=almost_ms))
    assert placed(scheduler, almost_ms) == []  # the cells have just been chosen again
    again_ms = scheduler.look_again_ms()
    assert again_ms is not None
    assert again_ms > almost_ms
    assert placed(scheduler, again_ms) == ["unlimited", "borrower"]


def test_what_was_freed_counts_also_after_the_last_gang_that_may_borrow_is_gone(scheduler: HivedScheduler) -> None:
    """Such gangs wait for what any virtual cluster frees, which must not hide what their own one does."""
    scheduler.add(gang("two", 4))
    scheduler.add(gang("one", 1, 1, 1, 1))
    scheduler.add(gang("b", 4, virtual_cluster="b"))
    scheduler.add(gang("guest", 4, priority=-1))
    assert sorted(placed(scheduler)) == ["b", "guest", "one", "two"]
    scheduler.add(gang("waits", 1, priority=0, submitted_at_ms=1))
    scheduler.add(gang("borrower", 4, submitted_at_ms=2, is_interruptible=True))
    scheduler.release("b")
    scheduler.add(gang("b2", 4, virtual_cluster="b", submitted_at_ms=0, priority=7))
    assert placed(scheduler, 10) == ["b2"]
    scheduler.cancel("borrower")
    for member in range(scheduler.core.cluster.freed[""]):
        scheduler.release("one", [member])
    assert placed(scheduler, 20) == ["waits"]
