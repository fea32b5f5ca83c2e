"""The laws of the whole scheduler behind the platform's entrance, over random histories.

No device is used twice, and everybody gets the GPUs they asked for. A gang starts as a whole or not at all, also
when its groups want different hardware. Nobody exceeds their limit. A restored scheduler has every gang in the same
cells, and one that resumes from a snapshot decides the same. Asking why a gang waits changes nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from hashlib import sha256
from heapq import merge
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

from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Ask, Gang, Group, Limit, Node, Place, Preempt, Spot, Topology, Why
from openpai.scheduler.queue.replay import answer, resume
from openpai.scheduler.queue.scheduler import HivedScheduler
from tests.scheduling.invariants import audit

TYPES = {
    "SWITCH": {"childCellType": "V100", "childCellNumber": 2},
    "NODE": {"childCellType": "SWITCH", "childCellNumber": 2, "isNodeLevel": True},
    "RACK": {"childCellType": "NODE", "childCellNumber": 2},
    "T4-NODE": {"childCellType": "T4", "childCellNumber": 2, "isNodeLevel": True},
    "CPU-NODE": {"childCellType": "CPU", "childCellNumber": 4, "isNodeLevel": True},
}
SKUS = {
    "V100": {"gpu": 1, "cpu": 4, "memory": "8192Mi"},
    "T4": {"gpu": 1, "cpu": 2, "memory": "4096Mi"},
    "CPU": {"gpu": 0, "cpu": 2, "memory": "2048Mi"},
}
NODES = (
    *(Node(f"r{rack}n{at}", 16, 32768, 4) for rack in range(2) for at in range(2)),
    Node("t0", 4, 8192, 2),
    Node("t1", 4, 8192, 2),
    Node("c0", 8, 8192, 0),
)


def promised(**cells: int) -> dict[str, Any]:
    return {
        "virtualCells": [
            {"cellType": kind.replace("__", "-").replace("_", "."), "cellNumber": n} for kind, n in cells.items()
        ]
    }


def config_of(clusters: dict[str, Any], has_cpus: bool = True) -> str:
    racks = [
        {"cellType": "RACK", "cellChildren": [{"cellAddress": f"r{rack}n0"}, {"cellAddress": f"r{rack}n1"}]}
        for rack in range(2)
    ]
    racks[1]["cellChildren"][1]["pinnedCellId"] = "mine"  # type: ignore[index]
    rest = [{"cellType": "T4-NODE", "cellAddress": name} for name in ("t0", "t1")]
    rest += [{"cellType": "CPU-NODE", "cellAddress": "c0"}] if has_cpus else []
    types = TYPES if has_cpus else {name: entry for name, entry in TYPES.items() if name != "CPU-NODE"}
    cluster = {"skuTypes": SKUS, "cellTypes": types, "physicalCells": [*racks, *rest]}
    return json.dumps({"physicalCluster": cluster, "virtualClusters": clusters})


PINNED = {"pinnedCells": [{"pinnedCellId": "mine"}]}
CONFIGS = (
    config_of(
        {
            "a": {**promised(RACK_NODE=1, T4__NODE=1, CPU__NODE=1), **PINNED},
            "b": promised(RACK_NODE=1, RACK_NODE_SWITCH=1, T4__NODE=1),
            "empty": {"virtualCells": []},
        }
    ),
    config_of({"a": promised(RACK=1), "b": {**promised(RACK_NODE=1, T4__NODE=2), **PINNED}}),
    config_of({"b": promised(RACK_NODE_SWITCH=3, T4__NODE=1), "empty": promised(RACK_NODE=1)}, has_cpus=False),
)

PATIENCE_MS = 1_000

some_ask = st.builds(
    Ask, st.sampled_from([0, 1, 2, 6]), st.sampled_from([0, 1024, 6000]), st.sampled_from([0, 1, 1, 2, 4])
)


@st.composite
def some_wish_drawn(draw: st.DrawFn) -> Gang:
    """Return a gang of any kind."""
    asks = tuple(draw(st.lists(some_ask, min_size=1, max_size=3)))
    more = draw(st.integers(0, 9))
    groups: tuple[Group, ...] = ()
    if more < 3 and len(asks) > 1:
        groups = (Group((1,), draw(st.sampled_from(["V100", "T4", "T4"]))),)
    return Gang(
        "",
        asks,
        draw(st.sampled_from(["a", "a", "b", "b", "b", "b", "b", "empty"])),
        draw(st.sampled_from([-1, 0, 0, 5])),
        user=draw(st.sampled_from(["ann", "bob"])),
        sku_type="V100" if groups else draw(st.sampled_from([None, None, "V100", "T4"])),
        pinned_cell="mine" if more == 3 else None,
        is_lazily_preemptible=more == 4,
        is_interruptible=more in (4, 7, 8, 9),
        groups=groups,
        topology=Topology("SWITCH", is_required=True) if more == 5 else None,
        rank=int(more == 6),
        time_limit_ms=draw(st.sampled_from([None, 1_000, 5_000])),
    )


some_wish = some_wish_drawn()
some_limits = st.lists(
    st.builds(
        Limit, st.none() | st.integers(0, 6), st.sampled_from(["", "a", "b"]), st.sampled_from(["", "ann", "bob"])
    ),
    max_size=3,
)


class Histories(RuleBasedStateMachine):
    """One scheduler, and what the world knows of it."""

    @initialize(text=st.sampled_from(["", *CONFIGS, *CONFIGS, CONFIGS[0]]))
    def begin(self, text: str) -> None:
        self.text = text
        self.scheduler = HivedScheduler(read_config(text), patience_ms=PATIENCE_MS) if text else HivedScheduler()
        for node in NODES:
            self.scheduler.set_node(node)
        self.nodes = {node.name: node for node in NODES}
        self.gangs: dict[str, Gang] = {}
        self.running: dict[str, list[Spot | None]] = {}
        self.limits: tuple[Limit, ...] = ()
        self.over: set[str] = set()
        self.now_ms = 0
        self.count = 0

    @rule(data=st.data(), commands=st.lists(some_wish, min_size=1, max_size=5), is_decided=st.booleans())
    def add(self, data: st.DataObject, commands: list[Gang], is_decided: bool) -> None:
        for promise in commands:
            self.count += 1
            gang = replace(promise, id=f"g{self.count}", submitted_at_ms=self.now_ms)
            self.gangs[gang.id] = gang
            self.scheduler.add(gang)
        if is_decided:
            self._decide(data, 100)

    @rule(data=st.data(), passes_ms=st.sampled_from([0, 500, 1_500]), most=st.sampled_from([1, 2, 100]))
    def decide(self, data: st.DataObject, passes_ms: int, most: int) -> None:
        self.now_ms += passes_ms
        self._decide(data, most)

    def _decide(self, data: st.DataObject, most: int) -> None:
        decisions = self.scheduler.decide(self.now_ms, most)
        assert len(decisions) <= most
        for decision in decisions:
            if isinstance(decision, Preempt):
                self._leave(decision, stays=data.draw(st.booleans()))
            elif data.draw(st.integers(0, 4)):
                self._start(decision)
            else:
                self._judge(decision)
                self.scheduler.reject(decision.gang)

    def _leave(self, decision: Preempt, *, stays: bool) -> None:
        assert decision.gang not in self.running
        for victim in decision.victims:
            assert victim in self.gangs or victim in self.over
            if victim in self.running and not stays:
                self.scheduler.release(victim)
                self._over(victim)

    def _start(self, decision: Place) -> None:
        self._judge(decision)
        self.running[decision.gang] = list(decision.spots)
        self.scheduler.commit(decision.gang)

    def _judge(self, decision: Place) -> None:
        gang = self.gangs[decision.gang]
        assert decision.gang not in self.running
        assert [len(spot.devices) for spot in decision.spots] == [ask.gpus for ask in gang.asks]
        for spot in decision.spots:
            assert self.nodes[spot.node].is_schedulable
            assert not self.nodes[spot.node].bad_devices & set(spot.devices)
        taken = [device for spots in self.running.values() for spot in spots if spot for device in devices_of(spot)]
        taken += [device for spot in decision.spots for device in devices_of(spot)]
        assert len(set(taken)) == len(taken), (decision, self.running)
        wants = sum(ask.gpus for ask in gang.asks)
        for name in (gang.virtual_cluster, ""):
            most = self._most(name, gang.user)
            assert not wants or most is None or wants + self._gpus_of(name, gang.user) <= most

    def _most(self, name: str, user: str) -> int | None:
        found = [limit for limit in self.limits if limit.virtual_cluster == name and limit.user in (user, "")]
        own = [limit for limit in found if limit.user == user] or found
        return min((limit.gpus for limit in own if limit.gpus is not None), default=None)

    def _gpus_of(self, name: str, user: str) -> int:
        return sum(
            len(spot.devices)
            for id_, spots in self.running.items()
            if name in ("", self.gangs[id_].virtual_cluster) and self.gangs[id_].user == user
            for spot in spots
            if spot is not None
        )

    def _over(self, gang: str) -> None:
        del self.running[gang]
        del self.gangs[gang]
        self.over.add(gang)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), is_whole=st.booleans())
    def finish(self, data: st.DataObject, is_whole: bool) -> None:
        gang = data.draw(st.sampled_from(sorted(self.running)))
        spots = self.running[gang]
        if is_whole:
            self.scheduler.release(gang)
            self._over(gang)
            return
        member = data.draw(st.integers(0, len(spots) - 1))
        self.scheduler.release(gang, [member])
        spots[member] = None
        if not any(spots):
            self._over(gang)

    @precondition(lambda self: self.gangs.keys() - self.running.keys())
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        gang = data.draw(st.sampled_from(sorted(self.gangs.keys() - self.running.keys())))
        self.scheduler.cancel(gang)
        assert self.scheduler.why(gang) is None
        del self.gangs[gang]

    @precondition(lambda self: self.gangs)
    @rule(data=st.data(), priority=st.sampled_from([-1, 0, 5]), rank=st.integers(0, 1), moves=st.booleans())
    def change(self, data: st.DataObject, priority: int, rank: int, moves: bool) -> None:
        gang = self.gangs[data.draw(st.sampled_from(sorted(self.gangs)))]
        name = data.draw(st.sampled_from(["a", "b", "empty"])) if moves else gang.virtual_cluster
        self.gangs[gang.id] = changed = replace(gang, priority=priority, rank=rank, virtual_cluster=name)
        before = self._cells()
        self.scheduler.change(changed)
        assert self._cells() == before

    @rule(limits=some_limits, is_fair=st.booleans())
    def set_rules(self, limits: list[Limit], is_fair: bool) -> None:
        self.limits = tuple(limits)
        self.scheduler.set_limits(self.limits)
        self.scheduler.set_fairness(60_000 if is_fair else None)
        self.scheduler.learn_use("a", "ann", 1e6, self.now_ms)

    @rule(data=st.data(), is_schedulable=st.booleans(), bad=st.sets(st.integers(0, 3), max_size=2))
    def change_node(self, data: st.DataObject, is_schedulable: bool, bad: set[int]) -> None:
        node = self.nodes[data.draw(st.sampled_from(sorted(self.nodes)))]
        bad_devices = frozenset(device for device in bad if device < node.gpus)
        self.nodes[node.name] = replace(node, is_schedulable=is_schedulable, bad_devices=bad_devices)
        self.scheduler.set_node(self.nodes[node.name])

    @precondition(lambda self: not self.count % 3)
    @rule(text=st.sampled_from(CONFIGS))
    def reconfigure(self, text: str) -> None:
        before = {gang: spots for gang, spots in self._cells().items() if gang in self.running}
        report = self.scheduler.reconfigure(read_config(text))
        self.text = text
        assert set(report.demoted) <= set(self.running)
        if "CPU-NODE" in text:
            after = self._cells()
            # What has no cell of its own any more may get one again with the new configuration.
            kept = {gang: spots for gang, spots in before.items() if not {"c0", "None"} & set(_words(spots))}
            assert {gang: after[gang] for gang in kept} == kept

    @rule()
    def restart_by_placement_hints(self) -> None:
        """Report to a new scheduler what runs where, and what waits."""
        fresh = HivedScheduler(read_config(self.text), patience_ms=PATIENCE_MS) if self.text else HivedScheduler()
        for node in self.nodes.values():
            fresh.set_node(node)
        fresh.set_limits(self.limits)
        for gang in list(self.scheduler.state.reserving):
            self.scheduler.reject(gang)
        before = self._guarantees(), self._cells(), self.scheduler.borrowers()
        for gang, hints in self.scheduler.changed_hints().items():
            pairs = zip(self.running[gang], hints, strict=True)
            self.running[gang] = [at and at._replace(placement_hint=hint or at.placement_hint) for at, hint in pairs]
        for gang in sorted(self.running, key=lambda gang: sha256(gang.encode()).digest()):
            fresh.restore(self.gangs[gang], self.running[gang])
        fresh.restored()
        for gang in self.gangs.keys() - self.running.keys():
            fresh.add(self.gangs[gang])
        self.scheduler = fresh
        assert (self._guarantees(), self._cells(), self.scheduler.borrowers()) == before

    @rule()
    def restart_by_snapshot(self) -> None:
        data = json.loads(json.dumps(self.scheduler.snapshot()))
        assert json.loads(json.dumps(resume(data).snapshot())) == data
        twin, self.scheduler = self.scheduler, resume(data)
        mine, other = resume(data), resume(data)
        assert mine.decide(self.now_ms, 100) == other.decide(self.now_ms, 100)
        assert {wait.id for wait in self.gangs.values() if self.scheduler.why(wait.id)} == {
            wait.id for wait in self.gangs.values() if twin.why(wait.id)
        }

    @rule()
    def ask_why(self) -> None:
        before = self.state_without_what_was_shown()
        for gang in sorted(self.gangs):
            wait = self.scheduler.why(gang, self.now_ms)
            if gang in self.running:
                assert wait is None
                continue
            assert wait is not None and wait.message and wait.estimate is not None  # noqa: PT018
            if wait.estimate.earliest_ms is not None and wait.estimate.latest_ms is not None:
                assert self.now_ms <= wait.estimate.earliest_ms <= wait.estimate.latest_ms
            shares = self.scheduler.core.cluster.shares
            assert self.gangs[gang].virtual_cluster in shares or wait.code is Why.NO_VIRTUAL_CLUSTER
        assert self.state_without_what_was_shown() == before

    def state_without_what_was_shown(self) -> str:
        """Return the state, except which ranges of starts were shown: they are judged later."""
        return re.sub(r'"shown": \{[^}]*\}', "", json.dumps(self.scheduler.snapshot(), sort_keys=True))

    @rule()
    def ask_which_gangs_are_ahead(self) -> None:
        """Counted line by line, it is what sorting everybody gives."""
        state = self.scheduler.state
        ranked = sorted(state.queue.all(), key=state.order_key)
        for place, waiting in enumerate(ranked):
            owner = waiting.gang.virtual_cluster
            ahead = [stretch.nearest_first() for stretch in state.queue.ahead_of(waiting, state.order_key)]
            nearest_first = list(merge(*ahead, key=state.order_key, reverse=True))
            assert nearest_first == [other for other in ranked[:place] if other.gang.virtual_cluster == owner][::-1]

    @precondition(lambda self: self.gangs.keys() - self.running.keys())
    @rule(data=st.data())
    def replay_one(self, data: st.DataObject) -> None:
        gang = data.draw(st.sampled_from(sorted(self.gangs.keys() - self.running.keys())))
        snapshot = json.loads(json.dumps(self.scheduler.snapshot()))
        message = answer(snapshot, gang, self.now_ms)
        assert json.loads(json.dumps(message)) is not None
        assert (message["why"] is None) == ("place" in message["decision"])

    def _guarantees(self) -> dict[str, bool]:
        running = self.scheduler.core.cluster.gangs.items()
        return {name: any(part and part.guarantee for part in each.parts) for name, each in running}

    def _cells(self) -> dict[str, Any]:
        """Return which devices of which chain every gang that runs has."""
        state = self.scheduler.state
        cells: dict[str, Any] = {}
        for name, record in sorted(self.scheduler.cluster.gangs.items()):
            nodes = [part and part.node_cell for part in record.parts]
            masks = [part and part.mask for part in record.parts]
            found = [node and (node.chain.spec.name, node.name, mask) for node, mask in zip(nodes, masks, strict=True)]
            cells.setdefault(state.gang_name(name), []).append(found)
        return {gang: found for gang, found in cells.items() if gang in self.running}

    @invariant()
    def the_books_are_right(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        scheduler = self.scheduler
        assert audit(scheduler.core.cluster) == []
        state = scheduler.state
        assert state.running.gangs.keys() == self.running.keys()
        known = {state.gang_name(name) for name in scheduler.core.cluster.gangs}
        assert known <= self.running.keys() | state.reserving.keys()
        for gang, waiting in state.reserving.items():
            # What is reserved is reserved for all of a gang, or has been taken over and is given up next time.
            assert gang not in self.running
            assert waiting.requests
        assert sum(share.running for share in scheduler.virtual_clusters()) <= len(self.running)


def _words(spots: object) -> list[str]:
    return re.findall(r"\w+", str(spots))


def devices_of(spot: Spot) -> list[tuple[str, str, str]]:
    chain, _, devices = spot.placement_hint.partition("@")[0].rpartition(":")
    pieces = [[int(number) for number in piece.split("-")] for piece in devices.split(",")]
    return [(spot.node, chain, str(at)) for piece in pieces for at in range(piece[0], piece[-1] + 1)]


@pytest.mark.slow
def test_the_laws_hold_over_random_histories() -> None:
    examples = min(settings.default.max_examples, 100)  # of 40 steps: more take many minutes
    sized = settings(max_examples=examples, stateful_step_count=40, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(Histories, settings=sized)
