"""The FIFO scheduler on small clusters: who goes first, where they land, and what the others are told."""

from __future__ import annotations

import time
from collections.abc import Collection

import pytest

from openpai.protocol.errors import Broken
from openpai.scheduler.fifo import FifoScheduler
from openpai.scheduler.model import Ask, Gang, Node, Place, Spot, Why

ONE_GPU = Ask(cpus=4, memory_mb=8000, gpus=1)


def a_node(
    name: str = "gpu-01", *, gpus: int = 8, cpus: int = 32, bad: Collection[int] = (), is_schedulable: bool = True
) -> Node:
    return Node(name, cpus, 64000, gpus, is_schedulable, frozenset(bad))


def a_gang(id_: str, *asks: Ask, vc: str = "default", priority: int = 0, at: int = 0) -> Gang:
    return Gang(id_, asks or (ONE_GPU,), vc, priority, at, "alice", f"alice~{id_}")


def gpus(count: int, cpus: int = 1) -> Ask:
    return Ask(cpus=cpus, memory_mb=1000, gpus=count)


def a_cluster(*nodes: Node) -> FifoScheduler:
    scheduler = FifoScheduler()
    for node in nodes:
        scheduler.set_node(node)
    return scheduler


def run(scheduler: FifoScheduler, *gangs: Gang) -> dict[str, tuple[Spot, ...]]:
    """Add gangs, decide, commit, and return where they went."""
    for gang in gangs:
        scheduler.add(gang)
    placed: dict[str, tuple[Spot, ...]] = {}
    for decision in scheduler.decide(0, 1000):
        assert isinstance(decision, Place)
        scheduler.commit(decision.gang)
        placed[decision.gang] = decision.spots
    return placed


class TestPacking:
    def test_devices_are_the_lowest_free_ones_and_bad_ones_are_left_out(self) -> None:
        scheduler = a_cluster(a_node(bad={0, 2}))
        placed = run(scheduler, a_gang("a", gpus(2)), a_gang("b", gpus(1)))
        assert placed == {"a": (Spot("gpu-01", (1, 3)),), "b": (Spot("gpu-01", (4,)),)}

    def test_a_small_gang_goes_where_least_is_free(self) -> None:
        scheduler = a_cluster(a_node("whole"), a_node("half"))
        scheduler.restore(a_gang("there", gpus(5)), [Spot("half", (0, 1, 2, 3, 4))])
        assert run(scheduler, a_gang("a", gpus(2)))["a"] == (Spot("half", (5, 6)),)

    def test_a_gang_that_fits_on_one_node_is_not_spread(self) -> None:
        scheduler = a_cluster(a_node("left"), a_node("right"))
        scheduler.restore(a_gang("there", gpus(2)), [Spot("left", (0, 1))])
        placed = run(scheduler, a_gang("a", gpus(4), gpus(4)))
        assert {spot.node for spot in placed["a"]} == {"right"}

    def test_a_gang_too_big_for_one_node_takes_as_few_as_possible(self) -> None:
        scheduler = a_cluster(*(a_node(f"gpu-{i:02}") for i in range(4)))
        for index, held in enumerate([3, 0, 2, 0]):
            if held:
                scheduler.restore(a_gang(f"t{index}", gpus(held)), [Spot(f"gpu-{index:02}", tuple(range(held)))])
        placed = run(scheduler, a_gang("a", *[gpus(1)] * 16))
        assert sorted({spot.node for spot in placed["a"]}) == ["gpu-01", "gpu-03"]

    def test_helpers_without_gpus_join_the_nodes_of_their_gang(self) -> None:
        scheduler = a_cluster(a_node("cpu-01", gpus=0), a_node("gpu-01"), a_node("gpu-02"))
        placed = run(scheduler, a_gang("a", Ask(1, 100, 0), gpus(8), gpus(8)))
        assert {spot.node for spot in placed["a"]} == {"gpu-01", "gpu-02"}

    def test_cpu_gangs_prefer_nodes_without_gpus(self) -> None:
        scheduler = a_cluster(a_node("gpu-01"), a_node("cpu-01", gpus=0))
        assert run(scheduler, a_gang("a", Ask(4, 100, 0)))["a"] == (Spot("cpu-01", ()),)

    @pytest.mark.parametrize("ask", [Ask(33, 100, 0), Ask(1, 64001, 0), gpus(9)])
    def test_every_resource_counts(self, ask: Ask) -> None:
        assert run(a_cluster(a_node()), a_gang("a", ask)) == {}

    def test_a_gang_starts_whole_or_not_at_all(self) -> None:
        scheduler = a_cluster(a_node())
        assert run(scheduler, a_gang("a", gpus(5), gpus(5))) == {}
        assert run(scheduler, a_gang("b", gpus(8), vc="other")) == {"b": (Spot("gpu-01", tuple(range(8))),)}

    def test_an_arrangement_by_the_scarcest_resource_is_found_too(self) -> None:
        # The member with more GPUs, placed first and tightly, would sit on the CPUs that only node a has.
        scheduler = a_cluster(a_node("a", gpus=2, cpus=8), a_node("b", gpus=8, cpus=4))
        placed = run(scheduler, a_gang("g", Ask(4, 100, 2), Ask(8, 100, 1)))
        assert [spot.node for spot in placed["g"]] == ["b", "a"]

    def test_closed_nodes_get_nothing_until_they_open(self) -> None:
        scheduler = a_cluster(a_node(is_schedulable=False))
        assert run(scheduler, a_gang("a")) == {}
        scheduler.set_node(a_node())
        assert list(run(scheduler)) == ["a"]


class TestOrder:
    def test_priority_then_submission_then_id(self) -> None:
        scheduler = a_cluster(a_node())
        placed = run(
            scheduler,
            a_gang("late", gpus(1), at=5),
            a_gang("b", gpus(1), at=1),
            a_gang("a", gpus(1), at=1),
            a_gang("high", gpus(1), at=9, priority=100),
        )
        assert list(placed) == ["high", "a", "b", "late"]

    def test_nobody_overtakes_in_a_virtual_cluster_but_another_one_goes_on(self) -> None:
        scheduler = a_cluster(a_node())
        run(scheduler, a_gang("there", gpus(4), at=0))
        placed = run(
            scheduler,
            a_gang("big", gpus(8), at=1),
            a_gang("small", gpus(1), at=2),
            a_gang("other", gpus(1), at=3, vc="vision"),
        )
        assert list(placed) == ["other"]

    def test_a_rejected_gang_is_again_where_it_was(self) -> None:
        scheduler = a_cluster(a_node())
        scheduler.add(a_gang("first", gpus(5), at=1))
        scheduler.add(a_gang("second", gpus(5), at=2))
        assert [d.gang for d in scheduler.decide(0, 10)] == ["first"]
        scheduler.reject("first")
        assert [d.gang for d in scheduler.decide(0, 10)] == ["first"]
        assert scheduler.why("second").position == 1  # type: ignore[union-attr]

    def test_a_proposal_is_made_once(self) -> None:
        scheduler = a_cluster(a_node())
        scheduler.add(a_gang("a"))
        assert len(scheduler.decide(0, 10)) == 1
        assert scheduler.decide(0, 10) == ()

    def test_the_limit_holds_over_all_virtual_clusters(self) -> None:
        scheduler = a_cluster(a_node())
        for index in range(6):
            scheduler.add(a_gang(f"g{index}", gpus(1), at=index, vc=f"vc{index % 2}"))
        assert [d.gang for d in scheduler.decide(0, 4)] == ["g0", "g1", "g2", "g3"]
        assert [d.gang for d in scheduler.decide(0, 4)] == ["g4", "g5"]


class TestGivingBack:
    def test_members_can_leave_one_by_one(self) -> None:
        scheduler = a_cluster(a_node())
        run(scheduler, a_gang("a", gpus(4), gpus(4)))
        scheduler.release("a", [1])
        assert run(scheduler, a_gang("b", gpus(4)))["b"] == (Spot("gpu-01", (4, 5, 6, 7)),)
        scheduler.release("a", [1])
        scheduler.release("a")
        assert run(scheduler, a_gang("c", gpus(4)))["c"] == (Spot("gpu-01", (0, 1, 2, 3)),)

    def test_cancel_takes_back_a_wish_and_a_proposal_but_not_a_fact(self) -> None:
        scheduler = a_cluster(a_node())
        scheduler.add(a_gang("a", gpus(8), at=1))
        scheduler.add(a_gang("b", gpus(8), at=2))
        scheduler.decide(0, 10)
        scheduler.cancel("a")
        assert [d.gang for d in scheduler.decide(0, 10)] == ["b"]
        scheduler.commit("b")
        scheduler.cancel("b")
        scheduler.cancel("unknown")
        assert run(scheduler, a_gang("c", gpus(1), at=3)) == {}

    def test_a_removed_node_comes_back_with_what_still_runs_there(self) -> None:
        scheduler = a_cluster(a_node())
        run(scheduler, a_gang("a", gpus(3)))
        scheduler.remove_node("gpu-01")
        assert run(scheduler, a_gang("b", gpus(1))) == {}
        scheduler.set_node(a_node())
        assert run(scheduler)["b"] == (Spot("gpu-01", (3,)),)

    def test_a_restored_gang_may_sit_on_a_node_nobody_knows_yet(self) -> None:
        scheduler = FifoScheduler()
        scheduler.restore(a_gang("a", gpus(2), gpus(2)), [None, Spot("gpu-01", (0, 1))])
        scheduler.set_node(a_node())
        assert run(scheduler, a_gang("b", gpus(1)))["b"] == (Spot("gpu-01", (2,)),)

    def test_a_device_told_to_run_two_tasks_is_our_bug(self) -> None:
        scheduler = a_cluster(a_node())
        scheduler.restore(a_gang("a", gpus(1)), [Spot("gpu-01", (0,))])
        with pytest.raises(Broken, match="two tasks"):
            scheduler.restore(a_gang("b", gpus(1)), [Spot("gpu-01", (0,))])


class TestReasons:
    def test_the_most_any_node_has_free_is_named(self) -> None:
        scheduler = a_cluster(a_node("gpu-06"), a_node("gpu-07"))
        run(scheduler, a_gang("x", gpus(6)), a_gang("y", gpus(5), at=1), a_gang("big", gpus(8), at=2))
        wait = scheduler.why("big")
        assert wait is not None
        assert (wait.code, wait.position, wait.ahead) == (Why.NOT_ENOUGH_FREE, 1, ())
        assert wait.told == "it needs 8 GPUs on one node; the most any node has free is 3 (node gpu-07)"

    def test_enough_in_all_but_in_pieces_is_fragmented(self) -> None:
        scheduler = a_cluster(a_node("gpu-06"), a_node("gpu-07"))
        run(scheduler, a_gang("x", gpus(5)), a_gang("y", gpus(5), at=1), a_gang("big", gpus(6), at=2))
        wait = scheduler.why("big")
        assert wait is not None
        assert wait.code is Why.FRAGMENTED
        assert wait.told.endswith("is 3 (node gpu-06) of 6 in all")

    def test_who_is_ahead_and_why_the_first_waits(self) -> None:
        scheduler = a_cluster(a_node())
        run(scheduler, a_gang("there", gpus(1)), *(a_gang(f"g{index}", gpus(8), at=index + 1) for index in range(8)))
        wait = scheduler.why("g7")
        assert wait is not None
        assert (wait.code, wait.position) == (Why.BEHIND_OLDER_JOB, 8)
        assert wait.ahead == ("alice~g6", "alice~g5", "alice~g4", "alice~g3", "alice~g2")
        assert "alice~g0, waits because it needs 8 GPUs" in wait.told

    def test_a_higher_priority_ahead_is_said(self) -> None:
        scheduler = a_cluster(a_node())
        run(scheduler, a_gang("there", gpus(1), priority=20))
        run(scheduler, a_gang("high", gpus(8), priority=10, at=9), a_gang("low", gpus(1), at=1))
        assert scheduler.why("low").code is Why.BEHIND_HIGHER_PRIORITY  # type: ignore[union-attr]

    def test_a_gang_that_never_fits_lets_others_pass_until_the_cluster_grows(self) -> None:
        scheduler = a_cluster(a_node())
        assert run(scheduler, a_gang("huge", gpus(9)), a_gang("small", at=1)).keys() == {"small"}
        wait = scheduler.why("huge")
        assert wait is not None
        assert (wait.code, wait.position) == (Why.NO_NODE, 0)
        scheduler.set_node(a_node("gpu-02", gpus=16))
        assert run(scheduler, a_gang("next", at=2)).keys() == {"huge", "next"}

    @pytest.mark.parametrize(
        "node",
        [a_node(is_schedulable=False), a_node(bad={0})],
    )
    def test_sick_nodes_are_named(self, node: Node) -> None:
        scheduler = a_cluster(node)
        run(scheduler, a_gang("a", gpus(8)))
        wait = scheduler.why("a")
        assert wait is not None
        assert wait.code is Why.UNHEALTHY_NODES
        assert "gpu-01" in wait.told

    def test_no_node_at_all(self) -> None:
        scheduler = FifoScheduler()
        run(scheduler, a_gang("a"))
        assert scheduler.why("a").code is Why.NO_NODE  # type: ignore[union-attr]

    def test_what_has_not_been_tried_says_so_and_what_runs_does_not_wait(self) -> None:
        scheduler = a_cluster(a_node())
        scheduler.add(a_gang("a"))
        assert scheduler.why("a").code is Why.NOT_YET_LOOKED_AT  # type: ignore[union-attr]
        run(scheduler)
        assert scheduler.why("a") is None
        assert scheduler.why("unknown") is None

    def test_the_reason_follows_the_cluster(self) -> None:
        scheduler = a_cluster(a_node())
        run(scheduler, a_gang("x", gpus(2)), a_gang("big", gpus(8), at=1))
        before = scheduler.why("big")
        run(scheduler, a_gang("other", gpus(4), vc="vision"))
        after = scheduler.why("big")
        assert before is not None
        assert after is not None
        assert ("free is 6" in before.told, "free is 2" in after.told) == (True, True)

    def test_together_on_one_node(self) -> None:
        scheduler = a_cluster(a_node("few-cpus", cpus=2), a_node("no-gpus", gpus=0))
        run(scheduler, a_gang("a", Ask(16, 100, 4)))
        wait = scheduler.why("a")
        assert wait is not None
        assert "4 GPUs, 16 CPUs and 100 MB of memory together on one node" in wait.told

    def test_all_members_at_once(self) -> None:
        scheduler = a_cluster(a_node("gpu-01", bad={0, 1}), a_node("gpu-02", bad={0, 1}), a_node("gpu-03"))
        run(scheduler, a_gang("x", gpus(8)), a_gang("a", gpus(4), gpus(4), gpus(4), at=1))
        wait = scheduler.why("a")
        assert wait is not None
        assert wait.code is Why.FRAGMENTED
        assert "3 tasks at once, 3 of them with 4 GPUs" in wait.told
        assert "the nodes have room for 2 of those 3" in wait.told


class TestRefusal:
    @pytest.mark.parametrize(
        ("gang", "words"),
        [
            (a_gang("a", gpus(9)), "9 GPUs on one node; the most any node has is 8 (node gpu-01)"),
            (a_gang("a", *[gpus(6)] * 3), "18 GPUs for its 3 tasks at once; all nodes together have 16"),
            (a_gang("a", *[gpus(5)] * 3), "15"),
        ],
    )
    def test_what_never_fits_is_refused_with_a_reason(self, gang: Gang, words: str) -> None:
        told = a_cluster(a_node("gpu-01"), a_node("gpu-02")).refusal(gang)
        assert told is not None
        if words != "15":
            assert words in told
        assert told.endswith("even when the whole cluster is empty")

    def test_a_full_or_sick_cluster_refuses_nothing_that_fits_it_empty(self) -> None:
        scheduler = a_cluster(a_node(bad={0, 1}), a_node("gpu-02", is_schedulable=False))
        run(scheduler, a_gang("x", gpus(6)))
        assert scheduler.refusal(a_gang("a", gpus(8), gpus(8))) is None

    def test_asking_changes_nothing(self) -> None:
        scheduler = a_cluster(a_node())
        for _ in range(20):
            assert scheduler.refusal(a_gang("a", gpus(8))) is None

    def test_a_cluster_without_nodes_waits_for_them(self) -> None:
        assert FifoScheduler().refusal(a_gang("a", gpus(64))) is None


def test_ten_thousand_gangs_on_a_thousand_nodes_cost_little_each() -> None:
    scheduler = a_cluster(*(a_node(f"gpu-{i:04}") for i in range(1000)))
    count = 10_000
    gangs = [a_gang(f"{index:05}", at=index) for index in range(count)]
    began = time.process_time()
    for gang in gangs:
        scheduler.add(gang)
    over = 0
    running: list[str] = []
    while over < count:
        for decision in scheduler.decide(0, 500):
            scheduler.commit(decision.gang)
            running.append(decision.gang)
        assert running, "what was released does not come back"
        for gang_id in running[:500]:
            scheduler.release(gang_id)
        over += len(running[:500])
        running = running[500:]
    # The bar is 60 microseconds; about 10 are used, so a busy machine does not fail this and a scan of nodes does.
    assert (time.process_time() - began) / count < 60e-6
