"""The law that a restart from a snapshot changes no decision.

Random histories are reported to three schedulers: one without any snapshot, one of which snapshots are taken at random
moments, and one that is then replaced by what was resumed from the snapshot. All three give the same decisions, reasons
and hints at every step, and have the same state.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any, Final

import pytest

from openpai.protocol.errors import Refused
from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Ask, Decision, Gang, Group, Limit, Order, Place, Preempt, Topology
from openpai.scheduler.queue.replay import resume
from openpai.scheduler.queue.scheduler import HivedScheduler
from tests.properties import test_moving
from tests.properties.test_hived_queue import CONFIGS, NODES

STEPS: Final = 40
SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60_000
SLOW_MS: Final = 0, MINUTE_MS, 20 * MINUTE_MS, 40 * MINUTE_MS
PATIENCE_MS: Final = 5 * MINUTE_MS


class History:
    """What happens in one cluster, and the three schedulers that hear of it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        pick = self.random.choice
        self.has_hardware = seed % 3 == 0
        """Whether nodes fail and the configuration changes."""
        self.vcs = ("a", "b")
        has_racks = seed % 2 == 0
        self.kinds = (None, "GPU") if has_racks else (None, None, None, "V100", "T4")
        self.configs = [json.dumps(test_moving.CONFIG)] if has_racks else CONFIGS
        self.nodes = {node.name: node for node in (test_moving.NODES if has_racks else NODES)}
        config = read_config(self.configs[0])
        self.schedulers = [HivedScheduler(config, PATIENCE_MS) for _ in range(3)]
        for node in self.nodes.values():
            self.each(lambda scheduler, node=node: scheduler.set_node(node))  # type: ignore[misc]
        self.now_ms = 0
        self.count = 0
        self.gangs: dict[str, Gang] = {}
        self.running: dict[str, list[bool]] = {}
        """By gang, which members are still there."""
        self.leaving: set[str] = set()
        self.seen: Counter[str] = Counter()
        """How often what was there when it was resumed."""
        self.pace_ms = pick([(0, SECOND_MS, MINUTE_MS), (0, MINUTE_MS, 7 * MINUTE_MS), SLOW_MS, SLOW_MS])
        self.calm = pick([0.1, 1.0])
        self.ends = pick([0.06, 0.12, 0.25])
        self.load = pick([0.3, 0.5, 0.7])
        self.orders = pick([{}, {}, {"a": Order.SHORTEST}, {"a": Order.FIFO, "b": Order.SHORTEST}])
        self.each(lambda scheduler: scheduler.set_orders(self.orders))
        movable = pick([(), ("a",), ("a", "b")])
        self.each(lambda scheduler: scheduler.set_movable(movable))
        self.interruptible = pick([0.0, 0.3, 0.8])
        self.members = pick([(1,), (1, 1, 1, 2), (1, 2, 3)])
        self.sizes = pick([(1, 1, 1, 2, 4), (1, 2, 4, 4), (1, 1, 3), (1, 1, 2, 3, 4, 4)])

        if seed % 4 == 2:
            # Cells are often in pieces, and nearly all gangs may be moved.
            self.calm, self.interruptible, self.ends, self.load = 0.1, 0.9, 0.12, 0.5
            self.pace_ms, self.members, self.sizes = SLOW_MS, (1, 1, 1, 2), (1, 1, 2, 3, 4, 4)
            self.each(lambda scheduler: scheduler.set_movable(("a", "b")))

    def each(self, tell: Callable[[HivedScheduler], Any]) -> Any:
        """Tell all schedulers the same, and return what all of them answer."""
        answers: list[Any] = []
        for scheduler in self.schedulers:
            try:
                answers.append(tell(scheduler))
            except Refused as refused:
                answers.append(refused.message)
        for answer in answers[1:]:
            assert answer == answers[0], (answers[0], answer)
        return answers[0]

    def step(self) -> None:
        chance = self.random.random
        self.now_ms += self.random.choice(self.pace_ms)
        calm = self.calm
        for happens, chances in (
            (self.add, self.load),
            (self.add, self.load),
            (self.add, self.load / 2),
            (self.end_some, 1.0),
            (self.end_member, 0.08 * calm),
            (self.cancel, 0.06 * calm),
            (self.change, 0.08 * calm),
            (self.set_rules, 0.05 * calm),
            (self.learn, 0.1),
            (self.change_node, 0.15 if self.has_hardware else 0.0),
            (self.reconfigure, 0.03 if self.has_hardware else 0.0),
            (self.checkpoint, 0.1),
            (self.restart, 0.06),
        ):
            if chance() < chances:
                happens()
        self.decide(self.random.choice([1, 2, 100, 100, 100]))
        for name in sorted(self.leaving):
            if chance() < 0.5:
                self.leave(name)
        if chance() < 0.06:
            self.restart()
        if chance() < 0.3:
            self.decide(100)
        if chance() < 0.1:
            waiting = sorted(self.gangs.keys() - self.running.keys())
            for name in waiting[:3]:
                self.each(lambda scheduler, name=name: scheduler.why(name, self.now_ms))  # type: ignore[misc]
        self.each(lambda scheduler: scheduler.look_again_ms())
        self.each(lambda scheduler: scheduler.changed_hints())

    def add(self) -> None:
        chance, pick = self.random.random, self.random.choice
        self.count += 1
        asks = tuple([Ask(pick([0, 0, 1, 6]), 0, pick(self.sizes)) for _ in range(pick(self.members))])
        more = self.random.randint(0, 19)
        groups = (Group((1,), pick(self.kinds)), Group((0,), pick(self.kinds))) if more == 0 and len(asks) > 1 else ()
        gang = Gang(
            f"g{self.count}",
            asks,
            pick(["a", "a", "b", "b", "empty"]) if more < 3 else pick(self.vcs),
            0 if self.calm < 1 else pick([0, 0, 0, 0, 0, 5, -1]),
            self.now_ms - pick([0, 0, 0, MINUTE_MS]),
            pick(["ann", "bob"]),
            f"u~{pick(['x', 'y'])}{self.count}",
            sku_type=None if groups else pick(self.kinds),
            pinned_cell="mine" if more == 1 else None,
            is_lazily_preemptible=more == 2,
            is_interruptible=chance() < self.interruptible,
            groups=groups,
            topology=Topology(pick(["SWITCH", "RACK"]), is_required=True)
            if more in (3, 4) and self.has_hardware
            else None,
            rank=int(more == 5),
            time_limit_ms=pick([None] * 5 + [MINUTE_MS, 30 * MINUTE_MS]),
            checkpoint_every_ms=pick([None, None, MINUTE_MS]),
        )
        self.tell_of(gang)

    def tell_of(self, gang: Gang) -> None:
        self.gangs[gang.id] = gang
        self.each(lambda scheduler: scheduler.add(gang))

    def end_some(self) -> None:
        for name in sorted(self.running.keys() - self.leaving):
            if self.random.random() < self.ends:
                self.each(lambda scheduler, name=name: scheduler.release(name))  # type: ignore[misc]
                self.forget(name)

    def end_member(self) -> None:
        if self.running:
            name = self.random.choice(sorted(self.running))
            there = self.running[name]
            member = self.random.choice([at for at, is_there in enumerate(there) if is_there])
            self.each(lambda scheduler: scheduler.release(name, [member]))
            there[member] = False
            if not any(there):
                self.forget(name)

    def leave(self, name: str) -> None:
        """End a preempted gang; its job is queued again."""
        gang = self.gangs[name]
        self.each(lambda scheduler: scheduler.release(name))
        self.forget(name)
        again = f"{name.partition('/')[0]}/{gang.attempt + 1}"
        self.tell_of(replace(gang, id=again, attempt=gang.attempt + 1))

    def forget(self, name: str) -> None:
        del self.running[name], self.gangs[name]
        self.leaving.discard(name)

    def cancel(self) -> None:
        names = sorted(self.gangs.keys() - self.running.keys())
        if names:
            name = self.random.choice(names)
            self.each(lambda scheduler: scheduler.cancel(name))
            del self.gangs[name]

    def change(self) -> None:
        if self.gangs:
            pick = self.random.choice
            gang = self.gangs[pick(sorted(self.gangs))]
            gang = replace(
                gang,
                priority=pick([gang.priority, 0, 5]),
                rank=pick([gang.rank, 1]),
                virtual_cluster=pick([gang.virtual_cluster, *self.vcs]),
                time_limit_ms=pick([gang.time_limit_ms, MINUTE_MS]),
            )
            self.gangs[gang.id] = gang
            self.each(lambda scheduler: scheduler.change(gang))

    def set_rules(self) -> None:
        pick = self.random.choice
        limits = [Limit(pick([2, 4, 8]), pick(["", "a"]), pick(["", "ann"])) for _ in range(pick([0, 1, 2]))]
        half_life_ms = pick([None, MINUTE_MS, 24 * 60 * MINUTE_MS])
        orders = pick([self.orders, {}, {"a": Order.SHORTEST}])
        movable = pick([("a",), ("b",), ("a", "b")])
        self.each(lambda scheduler: scheduler.set_limits(limits))
        self.each(lambda scheduler: scheduler.set_fairness(half_life_ms))
        self.each(lambda scheduler: scheduler.set_orders(orders))
        self.each(lambda scheduler: scheduler.set_movable(movable))

    def learn(self) -> None:
        pick = self.random.choice
        gang = Gang("", (Ask(0, 0, pick([1, 2, 4])),), pick(self.vcs), user=pick(["ann", "bob"]), job="u~x0")
        ran_ms = pick([0, SECOND_MS, MINUTE_MS, 10 * MINUTE_MS])
        self.each(lambda scheduler: scheduler.learn_run_time(gang, ran_ms))
        self.each(lambda scheduler: scheduler.learn_use(gang.virtual_cluster, gang.user, 1e6, self.now_ms))

    def change_node(self) -> None:
        pick, chance = self.random.choice, self.random.random
        old = self.nodes[pick(sorted(self.nodes))]
        bad = frozenset([device for device in range(old.gpus) if chance() < 0.2])
        node = replace(old, is_schedulable=chance() < 0.7, bad_devices=bad)
        if chance() < 0.1:
            node = replace(node, memory_mb=pick([8192, 16384]))
        self.nodes[old.name] = node
        if chance() < 0.1:
            self.each(lambda scheduler: scheduler.remove_node(old.name))
        else:
            self.each(lambda scheduler: scheduler.set_node(node))

    def reconfigure(self) -> None:
        config = read_config(self.random.choice(self.configs))
        self.each(lambda scheduler: scheduler.reconfigure(config))

    def checkpoint(self) -> None:
        if self.running:
            name = self.random.choice(sorted(self.running))
            self.each(lambda scheduler: scheduler.checkpointed(name, self.now_ms))

    def decide(self, most: int) -> None:
        fresh = self.looking_afresh() if self.random.random() < 0.3 else None
        decisions: tuple[Decision, ...] = self.each(lambda scheduler: scheduler.decide(self.now_ms, most))
        if fresh is not None:
            decided = fresh.decide(self.now_ms, most)
            assert decided == decisions or fresh.state.kept or self.schedulers[0].state.kept, (decided, decisions)
            self.seen["afresh"] += not fresh.state.kept
        for decision in decisions:
            name = decision.gang
            if isinstance(decision, Preempt):
                self.leaving |= set(decision.victims) & self.running.keys()
            elif self.random.random() < 0.1:
                self.each(lambda scheduler, name=name: scheduler.reject(name))  # type: ignore[misc]
            else:
                assert isinstance(decision, Place)
                if self.random.random() < 0.05:
                    self.restart()
                self.each(lambda scheduler, name=name: scheduler.commit(name))  # type: ignore[misc]
                self.running[name] = [True] * len(decision.spots)

    def looking_afresh(self) -> HivedScheduler | None:
        """Return what is resumed from a snapshot that says nothing of what was looked at before, where that is equal.

        When it is looked at decides about what is kept, who is expected to run shortest, and who gets a guarantee.
        """
        state = self.schedulers[1].state
        if state.kept or state.moves.allowed or any(state.lent.values()) or Order.SHORTEST in state.orders.values():
            return None
        data: dict[str, Any] = json.loads(json.dumps(self.schedulers[1].snapshot()))
        del data["memory"]
        return resume(data)

    def restart(self) -> None:
        """Take a snapshot of the second scheduler; what is resumed from it replaces the third."""
        text = json.dumps(self.schedulers[1].snapshot())
        self.schedulers[2] = resume(json.loads(text))
        self.compare(*self.schedulers[1:])
        state = self.schedulers[2].state
        self.seen["waiting"] += bool(state.queue.all())
        self.seen["reserving"] += bool(state.reserving)
        self.seen["kept"] += bool(state.kept)
        self.seen["draining"] += any(drain.number is not None for drain in state.drains.of.values())
        self.seen["ahead"] += any(drain.ahead_ms for drain in state.drains.of.values())
        self.seen["withheld"] += any(kept.is_withheld for kept in state.kept.values())
        self.seen["closed"] += any(kept.closed_ms is not None for kept in state.kept.values())
        self.seen["guests"] += any(kept.guests for kept in state.kept.values())
        self.seen["lent"] += any(state.lent.values())
        self.seen["moving"] += bool(state.moves.open)
        self.seen["moved"] += bool(state.moves.work)
        self.seen["bad"] += bool(state.core.cluster.unhealthy)
        self.seen["uncountable"] += bool(state.uncountable)
        self.seen["demoted"] += bool(state.core.cluster.demoted)
        self.seen["all"] += 1

    def compare(self, *schedulers: HivedScheduler) -> None:
        """Compare the whole states."""
        first, *others = [json.dumps(scheduler.snapshot()) for scheduler in schedulers]
        for other in others:
            assert first == other, list(differences("", json.loads(first), json.loads(other)))[:3]


def differences(name: str, one: object, other: object) -> Iterator[str]:
    """Yield where two documents differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        if list(one) != list(other):
            yield f"{name}: {list(one)} {list(other)}"
        for key in one.keys() & other.keys():
            yield from differences(f"{name}.{key}", one[key], other[key])
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            yield from differences(f"{name}[{at}]", mine, theirs)
    elif one != other:
        yield f"{name}: {one} {other}"


def played(seed: int) -> Counter[str]:
    history = History(seed)
    try:
        for _ in range(STEPS):
            history.step()
        history.compare(*history.schedulers)
    except Exception as error:
        raise AssertionError(f"seed {seed} at {history.now_ms} ms: {error}") from error
    return history.seen


QUICK: Final = 24
SWEEP: Final = int(os.environ.get("OPENPAI_HISTORIES", "176"))


@pytest.mark.slow
def test_a_resumed_scheduler_decides_as_before() -> None:
    seen: Counter[str] = Counter()
    for seed in range(QUICK):
        seen += played(seed)
    for what in ("reserving", "kept", "withheld", "closed", "draining", "ahead", "lent", "moved", "bad", "afresh"):
        assert seen[what], f"nothing was {what} in these histories"


@pytest.mark.full
@pytest.mark.parametrize("first", range(QUICK, QUICK + SWEEP, 20))
def test_a_resumed_scheduler_decides_as_before_in_many_histories(first: int) -> None:
    for seed in range(first, min(first + 20, QUICK + SWEEP)):
        played(seed)
