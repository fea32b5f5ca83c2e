"""The laws of the HiveD core, over random histories on small clusters, checked against a placer that tries everything.

(a) A virtual cluster gets what it is still owed, and never more: a gang waits only if no choice of cells has room for
it, with bad hardware, drains, preemption, mixed promises, groups in groups and requests for topology and nodes. It is
placed as a whole or not at all, and no device is used twice. (b) Nothing waits that a scheduler freshly loaded from the
snapshot would start, and one that was loaded earlier gives the same answers as one that went on from the start. (c) A
restart, from a snapshot or gang by gang from records, and a new configuration with the same promises leave every gang
its guarantee. (d) Guarantees follow priority. (e) A decision leaves no trace until it is committed.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from openpai.protocol.errors import Refused
from openpai.scheduler.cells import snapshot
from openpai.scheduler.cells.core import Hived
from openpai.scheduler.cells.model import Bind, CellGroup, Code, Decision, GangRequest, NodeHealth, Preempt, State, Wait
from openpai.scheduler.config.model import InvalidConfig
from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Topology
from tests.properties.brute import could_have_right, is_owed
from tests.scheduling.history import core_of
from tests.scheduling.invariants import audit

STEPS = 40
QUICK = 60
SWEEP = int(os.environ.get("OPENPAI_HISTORIES", "1440"))


def some_config(dice: Random) -> str:
    """Return a cluster of one to three chains with any cells promised or pinned; some machines are in two chains."""
    while True:
        types: dict[str, Any] = {}
        cells: list[dict[str, Any]] = []
        paths: list[list[str]] = []
        pins: list[str] = []
        machines = 0
        for chain in range(dice.choice([1, 1, 1, 2, 3])):
            inner = dice.choice([[2], [4], [2, 2], [2, 2], [3, 2], [1, 2], [2, 1], [2, 1, 2]])
            upper = dice.choice([[], [2], [2], [3], [2, 2], [1], [1, 2]])
            path = [dice.choice(["GPU", f"GPU-{chain}"])]
            for at, number in enumerate(inner + upper):
                types[f"C{chain}L{at}"] = {"childCellType": path[-1], "childCellNumber": number}
                path.append(f"C{chain}L{at}")
            types[path[len(inner)]]["isNodeLevel"] = True
            paths.append(path)
            nodes = 1
            for number in upper:
                nodes *= number
            shared = path[0] != "GPU" and dice.random() < 0.5
            for _ in range(dice.randint(1, max(1, 6 // nodes))):
                names = [f"n{machines + at}" if not shared else f"s{chain}-{machines + at}" for at in range(nodes)]
                machines += nodes
                cells.append(_tree(dice, path[-1], inner[-1], upper, names, pins))
        clusters = {}
        for at, name in enumerate("ABC"[: dice.randint(1, 3)]):
            promised = []
            for _ in range(dice.randint(1, 3)):
                path = dice.choice(paths)
                kind = ".".join(reversed(path[dice.randint(0, len(path) - 1) :]))
                promised.append({"cellType": kind, "cellNumber": dice.choice([1, 1, 2])})
            own = [{"pinnedCellId": pin} for place, pin in enumerate(pins) if place % 3 == at]
            clusters[name] = {"virtualCells": promised, "pinnedCells": own}
        text = json.dumps(
            {"physicalCluster": {"cellTypes": types, "physicalCells": cells}, "virtualClusters": clusters}
        )
        try:
            read_config(text)
        except InvalidConfig:
            continue
        return text


def _tree(dice: Random, top: str, parts: int, upper: list[int], names: list[str], pins: list[str]) -> dict[str, Any]:
    """Return a cell of the top type; a few of its nodes, or of the cells just inside them, are pinned."""

    def node(name: str) -> dict[str, Any]:
        chance = dice.random()
        if chance >= 0.06:
            return {"cellAddress": name}
        pins.append(f"pin-{name}")
        if chance >= 0.02 or parts < 2:
            return {"cellAddress": name, "pinnedCellId": pins[-1]}
        return {"cellAddress": name, "cellChildren": [{"pinnedCellId": pins[-1]}, *({} for _ in range(1, parts))]}

    row = [node(name) for name in names]
    for number in upper:
        row = [{"cellChildren": row[at : at + number]} for at in range(0, len(row), number)]
    return {**row[0], "cellType": top}


def written(core: Hived) -> str:
    return json.dumps(core.snapshot(), sort_keys=True)


# A configuration is a value; a history has one text of it, which would be read at each of its steps.
read_once = lru_cache(maxsize=8)(read_config)


def loaded(text: str) -> Hived:
    """Return a scheduler that is loaded from a snapshot."""
    with patch.object(snapshot, "read_config", read_once):
        return Hived.from_snapshot(json.loads(text))


class History:
    """One random history, with every law checked at every step.

    `mirror` gets the same calls as `core`; a restart replaces it by one that is loaded from the snapshot of `core`.
    """

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.text = some_config(self.dice)
        self.core = core_of(self.text)
        self.mirror = core_of(self.text)
        self.waiting: dict[str, GangRequest] = {}
        self.too_large: dict[str, GangRequest] = {}
        """What no cell that is promised can hold: until promises change, asking for it again proves nothing."""
        self.answers: tuple[str, dict[str, Decision]] = "", {}
        """A state, and what gangs were answered in it."""
        self.count = 0
        self.log: list[str] = []

    def run(self, steps: int) -> None:
        kinds = [self.submit] * 8 + [self.finish] * 5 + [self.change_node] * 2 + [self.mend, self.restart]
        kinds += [self.restart_from_records, self.reconfigure, self.change_priority, self.submit_several]
        for _ in range(steps):
            self.dice.choice(kinds)()
            wrong = audit(self.core.cluster)
            assert not wrong, wrong
            text = written(self.core)
            assert text == written(self.mirror)
            self.nothing_waits_for_nothing(text)
            self.guarantees_follow_priority()

    def both(self, name: str, *rest: Any) -> Any:
        """Call both schedulers; return what the first answers, which the second has answered too."""
        found, other = (getattr(core, name)(*rest) for core in (self.core, self.mirror))
        assert found == other, f"{name}{rest}: {found} here, {other} in one that was loaded from a snapshot"
        return found

    def some_request(self) -> GangRequest:
        dice, cluster = self.dice, self.core.cluster
        self.count += 1
        members = tuple((dice.randint(1, 3), dice.choice([1, 1, 2, 2, 3, 4])) for _ in range(dice.choice([1, 1, 2])))
        owner = dice.choice(sorted(cluster.shares))
        priority = dice.choice([-1, 0, 0, 5, 10])
        pins = [pin for name, pin in cluster.pins if name == owner]
        pin = dice.choice(pins) if pins and priority >= 0 and dice.random() < 0.2 else None
        promise, nodes = None, None
        if dice.random() < 0.3:
            types = sorted({kind for chain in cluster.chains.values() for kind in chain.spec.types})
            promise = Topology(dice.choice(types), dice.random() < 0.7)
        if dice.random() < 0.1:
            names = sorted(cluster.node_cells)
            nodes = frozenset(dice.sample(names, dice.randint(1, len(names))))
        leaf_type = None
        if dice.random() < 0.2:
            leaf_type = dice.choice([chain.spec.leaf_type for chain in cluster.chains.values()])
        is_lazy = dice.random() < 0.4
        groups: tuple[CellGroup, ...] = ()
        if dice.random() < 0.3:
            members = tuple((1, dice.choice([1, 1, 2, 2, 3])) for _ in range(dice.randint(1, 4)))
            groups = self.some_groups(list(range(len(members))), 2)
        return GangRequest(f"g{self.count}", owner, members, priority, leaf_type, pin, is_lazy, promise, nodes, groups)

    def some_groups(self, members: list[int], deep: int) -> tuple[CellGroup, ...]:
        """Return groups of some of the members, with groups in them, inside cells of types of one chain."""
        dice = self.dice
        types = dice.choice(list(self.core.cluster.chains.values())).spec.types[1:]
        dice.shuffle(members)
        found = []
        while members and len(found) < 2:
            number = dice.randint(1, len(members))
            mine, members = members[:number], members[number:]
            inner = self.some_groups(mine, deep - 1) if deep and dice.random() < 0.4 else ()
            named = {member for group in inner for member in group.all_members()}
            loose = tuple(sorted(member for member in mine if member not in named))
            found.append(CellGroup(dice.choice(types), loose, inner))
        return tuple(found)

    def submit(self) -> None:
        request, before = self.some_request(), written(self.core)
        try:
            decision = self.core.schedule(request)
        except Refused:
            with pytest.raises(Refused):
                self.mirror.schedule(request)
            return
        assert self.mirror.schedule(request) == decision
        assert written(self.core) == before
        self.judge(request, decision)
        self.log.append(f"{request} -> {decision}")
        if isinstance(decision, Wait):
            (self.too_large if decision.code is Code.TOO_LARGE else self.waiting)[request.id] = request
        elif self.dice.random() < 0.9:
            self.both("schedule", request)
            self.both("commit", request.id, self.count)
            for displaced in decision.displaced:
                assert displaced not in self.core.cluster.gangs
            if isinstance(decision, Preempt) and self.dice.random() < 0.6:
                self.pay((request, decision))

    def submit_several(self) -> None:
        """Gangs that start together or not at all, as the parts of a job on several types of hardware do."""
        first = self.some_request()
        owner, priority = first.virtual_cluster, first.priority
        more = [self.some_request() for _ in range(self.dice.randint(1, 2))]
        more = [replace(each, virtual_cluster=owner, priority=priority, pinned_cell=None) for each in more]
        requests, before = [first, *more], written(self.core)
        try:
            decisions = self.core.schedule_all(requests)
        except Refused:
            return
        assert written(self.core) == before
        self.log.append(f"{requests} -> {decisions}")
        assert self.both("schedule_all", requests) == decisions
        if not isinstance(decisions, Wait):
            self.both("commit_all", self.count)
            if self.dice.random() < 0.6:
                self.pay(*zip(requests, decisions, strict=True))

    def pay(self, *decided: tuple[GangRequest, Bind | Preempt]) -> None:
        """Release the victims: then the gangs start at the spots of their decisions."""
        for victim in sorted({victim for _, each in decided if isinstance(each, Preempt) for victim in each.victims}):
            self.both("release", victim)
        for request, decision in decided:
            again = self.both("schedule", request)
            assert isinstance(again, Bind)
            assert again.spots == decision.spots
            self.both("commit", request.id, self.count)

    def judge(self, request: GangRequest, decision: Decision) -> None:
        owed = is_owed(self.core.cluster, request) if isinstance(decision, Wait) else None
        assert not owed, f"{request} waits ({decision}) and is owed its place"
        self.core.roll_back()
        if not isinstance(decision, Wait):
            assert is_owed(self.core.cluster, request), f"{request} got more than it is owed: {decision}"
            self.judge_spots(request, decision)
        if isinstance(decision, Preempt):
            for victim in decision.victims:
                record = self.core.cluster.gangs[victim]
                has_less = record.request.priority < request.priority
                assert has_less or all(part is None or part.guarantee is None for part in record.parts)

    def judge_spots(self, request: GangRequest, decision: Bind | Preempt) -> None:
        assert [len(spot.devices) for spot in decision.spots] == list(request.sizes())
        devices = [(spot.node, device) for spot in decision.spots for device in spot.devices]
        assert len(set(devices)) == len(devices)
        assert request.nodes is None or {node for node, _ in devices} <= request.nodes
        if request.topology is not None and request.topology.is_required:
            chain = self.core.cluster.chains[decision.chain]
            size = chain.spec.leaves(chain.spec.types.index(request.topology.cell_type) + 1)
            nodes = {node_cell.name: node_cell for node_cell in chain.node_cells}
            leaves = [nodes[name].index * chain.shape.leaves + nodes[name].devices.index(at) for name, at in devices]
            assert len({leaf // size for leaf in leaves}) == 1

    def nothing_waits_for_nothing(self, text: str) -> None:
        if not self.waiting:
            return
        if text != self.answers[0]:
            self.answers = text, {}
        answers = self.answers[1]
        # What was asked since the last change gets the same answer: steps that change nothing are many.
        more = [request for name, request in self.waiting.items() if name not in answers]
        fresh = loaded(text) if more else self.core
        for request in more:
            mine, other = self.core.schedule(request), fresh.schedule(request)
            assert mine == other, f"{request}: {mine} here, {other} after a restart"
            answers[request.id] = mine
        self.core.roll_back()
        started = self.dice.choice(sorted(self.waiting))
        request = self.waiting[started]
        if not isinstance(answers[started], Wait):
            self.judge(request, self.core.schedule(request))
            self.both("schedule", request)
            self.both("commit", started, self.count)
            del self.waiting[started]

    def guarantees_follow_priority(self) -> None:
        cluster = self.core.cluster
        for name, record in cluster.gangs.items():
            is_without = record.lazily_preempted_by is not None and not record.threats
            if is_without and record.state is State.ALLOCATED and record.request.priority >= 0:
                assert not could_have_right(cluster, name), f"{name} is without a guarantee it could have"

    def finish(self) -> None:
        gangs = self.core.cluster.gangs
        if not gangs:
            return
        gang = self.dice.choice(sorted(gangs))
        record = gangs[gang]
        if record.state is State.PREEMPTING or self.dice.random() < 0.8:
            self.both("release", gang)
        else:
            self.both("release", gang, [self.dice.randrange(len(record.parts))])
        self.log.append(f"release {gang}")

    def change_node(self) -> None:
        name = self.dice.choice(sorted(self.core.cluster.node_cells))
        bad = frozenset(self.dice.sample(range(6), self.dice.choice([0, 1, 1, 2])))
        health = self.dice.choice([NodeHealth(False), NodeHealth(True, True), NodeHealth(bad_devices=bad)])
        self.both("set_nodes", {name: health})
        self.log.append(f"{name} {health}")

    def mend(self) -> None:
        self.both("set_nodes", dict.fromkeys(self.core.cluster.node_cells, NodeHealth()))
        self.log.append("mend")

    def restart(self) -> None:
        """Take over with the mirror, and load another from its snapshot."""
        before = self.guarantees()
        self.core, self.mirror = self.mirror, loaded(written(self.core))
        assert self.guarantees() == before
        self.log.append("restart")

    def guarantees(self) -> dict[str, bool]:
        """Return of each gang that runs whether it has its guarantee."""
        gangs = self.core.cluster.gangs
        return {name: record.lazily_preempted_by is None and not record.lost for name, record in gangs.items()}

    def give_up_reservations(self) -> None:
        """Only running gangs survive: gangs that wait for their victims wait again."""
        for name in [name for name, each in self.core.cluster.gangs.items() if each.state is State.PREEMPTING]:
            self.waiting[name] = self.core.cluster.gangs[name].request
            self.both("cancel", name)

    def restart_from_records(self) -> None:
        self.give_up_reservations()
        before, old = self.guarantees(), self.core
        records = list(old.cluster.gangs.values())
        self.dice.shuffle(records)
        self.core = core_of(self.core.cluster.config.text)
        self.core.set_nodes(old.cluster.unhealthy)
        for record in records:
            kinds = (part.node_cell.chain.spec.leaf_type for part in record.parts if part is not None)
            request = replace(record.request, leaf_type=next(kinds, None))
            self.core.restore(request, record.spots, record.since_ms, old.binding(record.request.id))
        self.core.restored()
        self.mirror = loaded(written(self.core))
        self.log.append(f"restart from records {before}")
        assert self.guarantees() == before

    def reconfigure(self) -> None:
        self.give_up_reservations()
        before = self.guarantees(), {gang: self.core.spots_held(gang) for gang in self.core.cluster.gangs}
        report = self.both("reconfigure", read_config(self.text))
        self.log.append("reconfigure")
        assert (self.guarantees(), {gang: self.core.spots_held(gang) for gang in self.core.cluster.gangs}) == before
        assert (report.demoted, report.waiting) == ((), ())

    def change_priority(self) -> None:
        running = [each.request for each in self.core.cluster.gangs.values() if each.request.priority >= 0]
        if running:
            request = replace(self.dice.choice(running), priority=self.dice.choice([0, 5, 10]))
            self.both("change", request)
            self.log.append(f"change {request.id} to {request.priority}")


def play(seed: int, steps: int = STEPS) -> None:
    history = History(seed)
    try:
        history.run(steps)
    except Exception as error:
        message = "\n".join([f"seed {seed}", history.text, *history.log])
        raise AssertionError(f"{error}\n{message}") from error


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.slow if seed % 2 else ()) for seed in range(QUICK)]
)
def test_the_promise_holds(seed: int) -> None:
    play(seed)


@pytest.mark.full
@pytest.mark.parametrize("first", range(QUICK, QUICK + SWEEP, 50))
def test_the_promise_holds_over_many_more_histories(first: int) -> None:
    for seed in range(first, min(first + 50, QUICK + SWEEP)):
        play(seed)
