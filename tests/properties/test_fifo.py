"""The laws of the FIFO scheduler, held against random histories and a brute-force placer."""

from __future__ import annotations

from collections import Counter
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from openpai.scheduler.fifo import FifoScheduler, turn_of
from openpai.scheduler.model import Ask, Gang, Node, Place, Spot

NODES = ("n0", "n1", "n2")
asks = st.builds(Ask, cpus=st.integers(0, 5), memory_mb=st.integers(0, 5), gpus=st.integers(0, 5))
nodes = st.builds(
    Node,
    name=st.sampled_from(NODES),
    cpus=st.integers(0, 9),
    memory_mb=st.integers(0, 9),
    gpus=st.integers(0, 8),
    is_schedulable=st.sampled_from([True, True, True, False]),
    bad_devices=st.frozensets(st.integers(0, 7), max_size=2),
)


class World(RuleBasedStateMachine):
    """Tells a scheduler random facts and keeps its own books."""

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = FifoScheduler()
        self.nodes: dict[str, Node] = {}
        self.waiting: dict[str, Gang] = {}
        self.held: dict[str, tuple[Gang, list[Spot | None]]] = {}
        self.proposed: set[str] = set()
        self.count = 0

    @rule(node=nodes)
    def node_set(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.scheduler.set_node(node)

    @rule(name=st.sampled_from(NODES))
    def node_removed(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.scheduler.remove_node(name)

    @rule(
        wanted=st.lists(asks, min_size=1, max_size=4),
        vc=st.sampled_from(["a", "b"]),
        priority=st.integers(-1, 1),
        at=st.integers(0, 3),
    )
    def submitted(self, wanted: list[Ask], vc: str, priority: int, at: int) -> None:
        gang = Gang(f"g{self.count}", tuple(wanted), vc, priority, at)
        self.count += 1
        self.waiting[gang.id] = gang
        self.scheduler.add(gang)
        self.scheduler.add(gang)

    @rule(limit=st.integers(0, 5))
    def decided(self, limit: int) -> None:
        before = self.free()
        decisions = self.scheduler.decide(0, limit)
        assert len(decisions) <= limit
        for decision in decisions:
            assert isinstance(decision, Place)
            gang = self.waiting[decision.gang]
            rivals = [other for other in self.hopeful() if other.virtual_cluster == gang.virtual_cluster]
            assert gang == min(rivals, key=turn_of), "somebody was overtaken"
            del self.waiting[gang.id]
            self.take(before, gang, decision.spots)
            self.held[gang.id] = (gang, list(decision.spots))
            self.proposed.add(gang.id)
        if len(decisions) < limit:
            self.heads_do_not_fit_trivially()

    def hopeful(self) -> list[Gang]:
        """Return the waiting gangs that would fit if everything were free."""
        return [gang for gang in self.waiting.values() if self.scheduler.refusal(gang) is None]

    def take(self, free: dict[str, list], gang: Gang, spots: tuple[Spot, ...]) -> None:  # type: ignore[type-arg]
        """Take `spots` from `free`; fails where a law is broken."""
        assert len(spots) == len(gang.asks), "all or nothing"
        for spot, ask in zip(spots, gang.asks, strict=True):
            cpus, memory_mb, devices = free[spot.node]
            assert len(spot.devices) == len(set(spot.devices)) == ask.gpus
            assert set(spot.devices) <= devices, "a device is bad, unknown or taken"
            assert (ask.cpus <= cpus, ask.memory_mb <= memory_mb) == (True, True), "over capacity"
            free[spot.node] = [cpus - ask.cpus, memory_mb - ask.memory_mb, devices - set(spot.devices)]

    def free(self) -> dict[str, list]:  # type: ignore[type-arg]
        """Return what is free by our own books on nodes that take tasks."""
        free = {
            node.name: [node.cpus, node.memory_mb, set(range(node.gpus)) - node.bad_devices]
            for node in self.nodes.values()
            if node.is_schedulable
        }
        for gang, spots in self.held.values():
            for spot, ask in zip(spots, gang.asks, strict=True):
                if spot is not None and spot.node in free:
                    cpus, memory_mb, devices = free[spot.node]
                    free[spot.node] = [cpus - ask.cpus, memory_mb - ask.memory_mb, devices - set(spot.devices)]
        return free

    def heads_do_not_fit_trivially(self) -> None:
        """With decisions to spare, no first gang is left that one node could take whole."""
        free = self.free().values()
        hopeful = self.hopeful()
        for vc in {gang.virtual_cluster for gang in hopeful}:
            head = min((g for g in hopeful if g.virtual_cluster == vc), key=turn_of)
            cpus, memory_mb, gpus = (sum(getattr(a, what) for a in head.asks) for what in ("cpus", "memory_mb", "gpus"))
            assert not any(have[0] >= cpus and have[1] >= memory_mb and len(have[2]) >= gpus for have in free)

    @precondition(lambda self: self.proposed)
    @rule(data=st.data(), accepted=st.booleans())
    def landed(self, data: st.DataObject, accepted: bool) -> None:
        gang_id = data.draw(st.sampled_from(sorted(self.proposed)))
        self.proposed.discard(gang_id)
        if accepted:
            self.scheduler.commit(gang_id)
        else:
            gang, _ = self.held.pop(gang_id)
            self.waiting[gang_id] = gang
            self.scheduler.reject(gang_id)

    @precondition(lambda self: self.held.keys() - self.proposed)
    @rule(data=st.data())
    def released(self, data: st.DataObject) -> None:
        gang_id = data.draw(st.sampled_from(sorted(self.held.keys() - self.proposed)))
        gang, spots = self.held[gang_id]
        members = data.draw(st.none() | st.lists(st.integers(0, len(gang.asks) - 1)))
        for index in range(len(spots)) if members is None else members:
            spots[index] = None
        if not any(spots):
            del self.held[gang_id]
        self.scheduler.release(gang_id, members)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancelled(self, data: st.DataObject) -> None:
        gang_id = data.draw(st.sampled_from(sorted(self.waiting)))
        del self.waiting[gang_id]
        self.scheduler.cancel(gang_id)

    @rule()
    def restarted(self) -> None:
        """A new scheduler, told what the store knows, goes on as the old one would."""
        scheduler = FifoScheduler()
        for node in self.nodes.values():
            scheduler.set_node(node)
        for gang_id in sorted(self.proposed):
            self.waiting[gang_id] = self.held.pop(gang_id)[0]
        self.proposed.clear()
        for gang, spots in self.held.values():
            scheduler.restore(gang, spots)
        for gang in self.waiting.values():
            scheduler.add(gang)
        self.scheduler = scheduler

    @invariant()
    def whoever_waits_has_a_reason_and_a_place(self) -> None:
        waits = {gang.id: self.scheduler.why(gang.id) for gang in self.waiting.values()}
        beside = {gang_id for gang_id, wait in waits.items() if wait is not None and wait.position == 0}
        assert all(self.scheduler.refusal(self.waiting[gang_id]) for gang_id in beside)
        for vc in {gang.virtual_cluster for gang in self.waiting.values()}:
            ordered = sorted((g for g in self.waiting.values() if g.virtual_cluster == vc), key=turn_of)
            queue = [gang for gang in ordered if gang.id not in beside]
            for position, gang in enumerate(queue, start=1):
                wait = self.scheduler.why(gang.id)
                assert wait is not None
                assert wait.position == position
                assert wait.told
                assert wait.unblock
                assert len(wait.ahead) == min(5, position - 1)
        assert all(self.scheduler.why(gang_id) is None for gang_id in self.held)


World.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_random_histories = World.TestCase


@settings(max_examples=150, deadline=None)
@given(
    cluster=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 6)), min_size=1, max_size=3),
    ask=asks,
    members=st.integers(1, 5),
)
def test_equal_members_are_placed_whenever_brute_force_can(
    cluster: list[tuple[int, int]], ask: Ask, members: int
) -> None:
    scheduler = FifoScheduler()
    for index, (gpus, cpus) in enumerate(cluster):
        scheduler.set_node(Node(f"n{index}", cpus, 6, gpus))
    gang = Gang("g", (ask,) * members)
    scheduler.add(gang)
    possible = any(fits(Counter(choice), cluster, ask) for choice in product(range(len(cluster)), repeat=members))
    assert (scheduler.refusal(gang) is None) == possible
    assert (len(scheduler.decide(0, 1)) == 1) == possible


def fits(choice: Counter[int], cluster: list[tuple[int, int]], ask: Ask) -> bool:
    """Return whether that many members per node fit."""
    return all(
        count * ask.gpus <= cluster[node][0] and count * ask.cpus <= cluster[node][1] and count * ask.memory_mb <= 6
        for node, count in choice.items()
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.lists(asks, min_size=1, max_size=3), st.integers(0, 2)), max_size=12))
def test_same_history_same_answers(wanted: list[tuple[list[Ask], int]]) -> None:
    def history() -> list[object]:
        scheduler = FifoScheduler()
        for name in NODES:
            scheduler.set_node(Node(name, 9, 9, 8))
        said: list[object] = []
        for index, (members, vc) in enumerate(wanted):
            scheduler.add(Gang(f"g{index}", tuple(members), f"vc{vc}"))
            said.append(scheduler.decide(0, 1))
        said.extend(scheduler.why(f"g{index}") for index in range(len(wanted)))
        return said

    assert history() == history()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(asks, min_size=1, max_size=3), min_size=1, max_size=10))
def test_release_gives_everything_back(wanted: list[list[Ask]]) -> None:
    scheduler = FifoScheduler()
    for name in NODES:
        scheduler.set_node(Node(name, 9, 9, 8))
    for index, members in enumerate(wanted):
        scheduler.add(Gang(f"g{index}", tuple(members), f"vc{index}"))
    for decision in scheduler.decide(0, 100):
        scheduler.commit(decision.gang)
        scheduler.release(decision.gang)
    for index in range(len(wanted)):
        scheduler.cancel(f"g{index}")
    scheduler.add(Gang("all", (Ask(9, 9, 8),) * 3))
    assert [decision.gang for decision in scheduler.decide(0, 1)] == ["all"]
