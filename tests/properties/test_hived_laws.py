"""The laws of the HiveD core, over random histories on small clusters.

No device is used twice. A virtual cluster is never denied what it was promised, and never given more: a placer that
tries everything says what would fit. A gang is placed as a whole or not at all. A decision leaves no trace until it is
committed. A scheduler loaded from a snapshot and one that went on from the start give the same answers.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from openpai.protocol.errors import Refused
from openpai.scheduler.cells.chain import VcShare
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.core import Hived
from openpai.scheduler.cells.model import Bind, GangRequest, NodeHealth, Preempt, State, Wait
from openpai.scheduler.config.model import InvalidConfig
from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Topology
from tests.properties.brute import fits
from tests.scheduling.invariants import audit

TYPES = {
    "SWITCH": {"childCellType": "GPU", "childCellNumber": 2},
    "NODE": {"childCellType": "SWITCH", "childCellNumber": 2, "isNodeLevel": True},
    "RACK": {"childCellType": "NODE", "childCellNumber": 2},
    "ROW": {"childCellType": "RACK", "childCellNumber": 2},
}


def row(name: str) -> dict[str, Any]:
    racks = [{"cellChildren": [{"cellAddress": f"{name}{rack}{node}"} for node in range(2)]} for rack in range(2)]
    return {"cellType": "ROW", "cellChildren": racks}


def promises(**cells: int) -> list[dict[str, Any]]:
    return [{"cellType": kind.replace("_", "."), "cellNumber": number} for kind, number in cells.items()]


ROWS = {
    "physicalCluster": {"cellTypes": TYPES, "physicalCells": [row("a"), row("b")]},
    "virtualClusters": {
        "A": {"virtualCells": promises(ROW_RACK=1, ROW_RACK_NODE=2)},
        "B": {"virtualCells": promises(ROW_RACK_NODE=1, ROW_RACK_NODE_SWITCH=2)},
        "C": {"virtualCells": promises(ROW_RACK=1)},
    },
}
MIXED = {
    "physicalCluster": {
        "cellTypes": TYPES,
        "physicalCells": [
            {"cellType": "RACK", "cellChildren": [{"cellAddress": "a0", "pinnedCellId": "P"}, {"cellAddress": "a1"}]},
            {
                "cellType": "RACK",
                "cellChildren": [
                    {"cellAddress": "a2"},
                    {"cellAddress": "a3", "cellChildren": [{"pinnedCellId": "Q"}, {}]},
                ],
            },
            {"cellType": "NODE", "cellAddress": "z0"},
            {"cellType": "NODE", "cellAddress": "z1"},
        ],
    },
    "virtualClusters": {
        "A": {"virtualCells": promises(RACK_NODE=1, NODE=1), "pinnedCells": [{"pinnedCellId": "P"}]},
        "B": {"virtualCells": promises(RACK_NODE_SWITCH=2, NODE=1), "pinnedCells": [{"pinnedCellId": "Q"}]},
    },
}


def promised_rooms(cluster: Cluster, share: VcShare, priority: int) -> list[int]:
    """Return the room in each node, or part of one, that a view was promised, with lower priorities gone."""
    chain = share.chain
    rooms = []
    for held in share.bindings.values():
        for unit in held.units:
            room = unit.mask & ~unit.node_cell.bad
            for gang, mask in unit.node_cell.claims.items():
                if cluster.gangs[gang].request.priority >= priority:
                    room &= ~mask
            rooms.append(room.bit_count())
    for at, unserved in enumerate(share.unserved):
        nodes = chain.nodes_per[at + 1] if at + 1 > chain.node_level else 1
        rooms += [chain.spec.leaves(min(at + 1, chain.node_level))] * (unserved.bit_count() * nodes)
    return rooms


def is_room(cluster: Cluster, request: GangRequest) -> bool:
    """Return whether some chain has room for a gang by what was promised, or by what is left over."""
    sizes = sorted(request.sizes(), reverse=True)
    if request.priority < 0:
        return any(
            fits(
                sizes,
                [
                    (node_cell.full & ~(node_cell.claimed | node_cell.opportunistic | node_cell.bad)).bit_count()
                    for node_cell in chain.node_cells
                ],
            )
            for chain in cluster.chains.values()
        )
    if request.pinned_cell is not None:
        shares = [cluster.pins[request.virtual_cluster, request.pinned_cell]]
    else:
        shares = list(cluster.shares[request.virtual_cluster].values())
    return any(fits(sizes, promised_rooms(cluster, share, request.priority)) for share in shares)


def written(core: Hived) -> str:
    return json.dumps(core.snapshot(), sort_keys=True)


some_members = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=2)


@st.composite
def some_cluster(draw: st.DrawFn) -> dict[str, Any]:
    """Return a cluster of any shape: one or two chains, nodes of any inner structure, any cells promised or pinned."""
    types: dict[str, Any] = {}
    cells: list[dict[str, Any]] = []
    chains: list[list[str]] = []
    pins: list[str] = []
    names = (f"n{number}" for number in itertools.count())

    def node(may_pin: bool) -> dict[str, Any]:
        name = next(names)
        if may_pin and draw(st.integers(0, 9)) == 0:
            pins.append(f"pin-{name}")
            return {"cellAddress": name, "pinnedCellId": pins[-1]}
        return {"cellAddress": name}

    def tree(shape: list[int], may_pin: bool) -> dict[str, Any]:
        if not shape:
            return node(may_pin)
        return {"cellChildren": [tree(shape[:-1], may_pin) for _ in range(shape[-1])]}

    few = st.integers(1, 3)
    for chain in range(draw(st.integers(1, 2))):
        inner, upper = draw(st.lists(few, min_size=1, max_size=3)), draw(st.lists(few, max_size=2))
        path = [draw(st.sampled_from(["GPU", f"GPU-{chain}"]))]
        for at, number in enumerate(inner + upper):
            types[f"C{chain}L{at}"] = {"childCellType": path[-1], "childCellNumber": number}
            path.append(f"C{chain}L{at}")
        types[path[len(inner)]]["isNodeLevel"] = True
        cells += [{**tree(upper, chain == 0), "cellType": path[-1]} for _ in range(draw(few))]
        chains.append(path)
    clusters: dict[str, Any] = {}
    for name in "ABC"[: draw(few)]:
        promised = []
        for _ in range(draw(st.integers(0, 2))):
            path = draw(st.sampled_from(chains))
            kind = ".".join(reversed(path[draw(st.integers(0, len(path) - 1)) :]))
            promised.append({"cellType": kind, "cellNumber": draw(few)})
        own = [{"pinnedCellId": pin} for at, pin in enumerate(pins) if at % 3 == len(clusters)]
        clusters[name] = {"virtualCells": promised, "pinnedCells": own}
    return {"physicalCluster": {"cellTypes": types, "physicalCells": cells}, "virtualClusters": clusters}


def has_no_faults(config: dict[str, Any]) -> bool:
    """Return whether a configuration is accepted: some that are drawn promise too much."""
    try:
        read_config(json.dumps(config))
    except InvalidConfig:
        return False
    return True


class Histories(RuleBasedStateMachine):
    """Two schedulers get the same calls; the second is now and then replaced by one from a snapshot of the first."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    @initialize(config=st.one_of(st.sampled_from([ROWS, MIXED]), some_cluster().filter(has_no_faults)))
    def begin(self, config: dict[str, Any]) -> None:
        self.core = Hived.from_text(json.dumps(config))
        self.mirror = Hived.from_text(json.dumps(config))

    @rule(
        data=st.data(),
        members=some_members,
        priority=st.sampled_from([-1, 0, 0, 5, 10]),
        has_wish=st.integers(0, 5),
        dice=st.tuples(st.booleans(), st.booleans(), st.integers(0, 9), st.booleans()),
    )
    def submit(
        self,
        data: st.DataObject,
        members: list[tuple[int, int]],
        priority: int,
        has_wish: int,
        dice: tuple[bool, bool, int, bool],
    ) -> None:
        is_lazy, is_pinned, is_committed, is_paid = dice
        core = self.core
        owner = data.draw(st.sampled_from(sorted(core.cluster.shares)))
        pins = [pin for name, pin in core.cluster.pins if name == owner]
        pin = pins[0] if pins and is_pinned and priority >= 0 else None
        promise, nodes = None, None
        if has_wish == 0:
            types = sorted({kind for chain in core.cluster.chains.values() for kind in chain.spec.types})
            promise = Topology(data.draw(st.sampled_from(types)), data.draw(st.booleans()))
        elif has_wish == 1:
            nodes = data.draw(st.frozensets(st.sampled_from(sorted(core.cluster.node_cells)), min_size=1))
        self.count += 1
        request = GangRequest(f"g{self.count}", owner, tuple(members), priority, None, pin, is_lazy, promise, nodes)
        before = written(core)
        try:
            decision = core.schedule(request)
        except Refused:
            with pytest.raises(Refused):
                self.mirror.schedule(request)
            return
        assert self.mirror.schedule(request) == decision
        assert written(core) == before
        self._judge(request, decision)
        if isinstance(decision, Wait) or not is_committed:
            return
        self._both("schedule", request)
        self._both("commit", request.id, self.count)
        if isinstance(decision, Preempt) and is_paid:
            self._pay(request, decision)

    def _pay(self, request: GangRequest, decision: Preempt) -> None:
        for victim in decision.victims:
            self._both("release", victim)
        again = self.core.schedule(request)
        assert self.mirror.schedule(request) == again
        if not self._has_bad():
            assert isinstance(again, Bind)
            assert again.spots == decision.spots
        if isinstance(again, Bind):
            self._both("schedule", request)
            self._both("commit", request.id, self.count)

    def _judge(self, request: GangRequest, decision: object) -> None:
        is_strict = (request.topology is not None and request.topology.is_required) or request.nodes is not None
        room = is_room(self.core.cluster, request)
        if isinstance(decision, Wait):
            assert not room or is_strict or (self._has_bad() and request.priority >= 0)
        elif not self._has_bad():
            assert room
        if isinstance(decision, Bind | Preempt):
            assert [len(spot.devices) for spot in decision.spots] == list(request.sizes())
            spots = [(spot.node, device) for spot in decision.spots for device in spot.devices]
            assert len(set(spots)) == len(spots)
            assert request.nodes is None or {node for node, _ in spots} <= request.nodes
            if request.topology is not None and request.topology.is_required:
                self._judge_topology(request.topology.cell_type, decision)
        if isinstance(decision, Preempt):
            assert request.priority >= 0
            for victim in decision.victims:
                record = self.core.cluster.gangs[victim]
                has_less = record.request.priority < request.priority
                assert has_less or all(part is None or part.guarantee is None for part in record.parts)

    def _judge_topology(self, cell_type: str, decision: Bind | Preempt) -> None:
        chain = self.core.cluster.chains[decision.chain]
        size = chain.spec.leaves(chain.spec.types.index(cell_type) + 1)
        node_cells = {node_cell.name: node_cell for node_cell in chain.node_cells}
        cells = set()
        for spot in decision.spots:
            node_cell = node_cells[spot.node]
            cells |= {
                (node_cell.index * chain.shape.leaves + node_cell.devices.index(device)) // size
                for device in spot.devices
            }
        assert len(cells) == 1

    def _has_bad(self) -> bool:
        return any(chain.bad_nodes for chain in self.core.cluster.chains.values())

    def _both(self, name: str, *rest: Any) -> None:
        for core in (self.core, self.mirror):
            getattr(core, name)(*rest)

    @precondition(lambda self: self.core.cluster.gangs)
    @rule(data=st.data(), is_whole=st.integers(0, 4))
    def finish(self, data: st.DataObject, is_whole: int) -> None:
        gang = data.draw(st.sampled_from(sorted(self.core.cluster.gangs)))
        record = self.core.cluster.gangs[gang]
        if is_whole or record.state is State.PREEMPTING:
            self._both("release", gang)
        else:
            self._both("release", gang, [data.draw(st.integers(0, len(record.parts) - 1))])

    @rule(data=st.data(), dice=st.tuples(st.booleans(), st.booleans()), bad=st.sets(st.integers(0, 3), max_size=2))
    def change_node(self, data: st.DataObject, dice: tuple[bool, bool], bad: set[int]) -> None:
        name = data.draw(st.sampled_from(sorted(self.core.cluster.node_cells)))
        self._both("set_nodes", {name: NodeHealth(dice[0], dice[1] and bool(bad), frozenset(bad))})

    @rule()
    def mend_everything(self) -> None:
        self._both("set_nodes", dict.fromkeys(self.core.cluster.node_cells, NodeHealth()))

    @rule()
    def restart(self) -> None:
        self.mirror = Hived.from_snapshot(json.loads(json.dumps(self.core.snapshot())))

    @rule()
    def reconfigure(self) -> None:
        before = {gang: self.core.spots_held(gang) for gang in self.core.cluster.gangs}
        report = self.core.reconfigure(self.core.cluster.config)
        assert self.mirror.reconfigure(self.mirror.cluster.config) == report
        after = {gang: self.core.spots_held(gang) for gang in self.core.cluster.gangs}
        assert after == {gang: spots for gang, spots in before.items() if gang not in report.waiting}

    @invariant()
    def the_books_are_right(self) -> None:
        if hasattr(self, "core"):
            assert audit(self.core.cluster) == []
            assert written(self.core) == written(self.mirror)


def test_the_laws_hold_over_random_histories() -> None:
    run_state_machine_as_test(
        Histories, settings=settings(stateful_step_count=40, suppress_health_check=list(HealthCheck))
    )
