"""Plays a history into the scheduler, one step at a time, and answers as it did then.

A step is a mapping that JSON can hold, with `op` saying what it is. A history written down as one step a line can so be
replayed by anyone, anywhere, as often as they like.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from openpai.protocol.errors import Refused
from openpai.scheduler.hived.core import Hived
from openpai.scheduler.hived.model import Bind, Decision, NodeHealth, Preempt
from openpai.scheduler.hived.reading import read_config
from openpai.scheduler.hived.snapshot import request_in
from openpai.scheduler.model import Spot

Step = Mapping[str, Any]

OPS = ("schedule", "commit", "release", "cancel", "checkpoint", "nodes", "restore", "reconfigure", "snapshot")


def replay(core: Hived, steps: Iterable[Step]) -> Iterator[dict[str, Any]]:
    """Carry out steps one after the other and yield what each is answered with."""
    for step in steps:
        try:
            yield carry_out(core, step)
        except Refused as refused:
            yield {"answer": "refused", **refused.as_dict()}


def carry_out(core: Hived, step: Step) -> dict[str, Any]:
    """Carry out one step and return its answer; raise Refused where the scheduler does."""
    op = step.get("op")
    done: dict[str, Any] = {"answer": "done"}
    if op == "schedule":
        return decision_out(core.schedule(request_in(step["gang"]), step.get("now_ms")))
    if op == "commit":
        core.commit(step["gang"], step.get("at_ms"))
    elif op == "release":
        core.release(step["gang"], step.get("members"))
    elif op == "cancel":
        core.cancel(step["gang"])
    elif op == "checkpoint":
        core.checkpointed(step["gang"], step["at_ms"])
    elif op == "nodes":
        core.set_nodes({name: _health(health) for name, health in step["nodes"].items()})
    elif op == "restore":
        spots = [None if spot is None else Spot(spot[0], tuple(spot[1])) for spot in step["spots"]]
        has_right = core.restore(request_in(step["gang"]), spots, step.get("since_ms"), step.get("cell_types", ()))
        return {**done, "is_guaranteed": has_right}
    elif op == "reconfigure":
        return {**done, **asdict(core.reconfigure(read_config(step["config"])))}
    elif op == "snapshot":
        return {**done, "snapshot": core.snapshot()}
    else:
        told = f"there is no step {op!r} in a history; there are {', '.join(OPS)}"
        raise Refused("InvalidParametersError", told, "correct `op`")
    return done


def decision_out(decision: Decision) -> dict[str, Any]:
    """Return a decision as plain data."""
    name = type(decision).__name__.lower()
    if isinstance(decision, Bind | Preempt):
        spots = [[spot.node, list(spot.devices)] for spot in decision.spots]
        plain = {key: list(value) for key, value in asdict(decision).items() if isinstance(value, tuple)}
        return {"answer": name, "gang": decision.gang, "chain": decision.chain, **plain, "spots": spots}
    return {
        "answer": name,
        "gang": decision.gang,
        "code": decision.code.value,
        "told": decision.told,
        "unblock": decision.unblock,
        "counts": dict(decision.counts),
    }


def _health(data: Mapping[str, Any]) -> NodeHealth:
    return NodeHealth(
        data.get("is_healthy", True), data.get("is_draining", False), frozenset(data.get("bad_devices", ()))
    )
