"""Plays a history into the scheduler, one step at a time, and answers as it did then.

A step is a mapping that JSON can hold, with `op` saying what it is. A history written down as one step a line can so be
replayed by anyone, anywhere, as often as they like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from openpai.protocol.errors import Refused
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.core import Hived
from openpai.scheduler.cells.model import Bind, Decision, NodeHealth, Preempt
from openpai.scheduler.cells.snapshot import request_in
from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Spot

Step = Mapping[str, Any]
Answer = dict[str, Any]

UNREADABLE: Final = (KeyError, TypeError, ValueError, AttributeError, IndexError)
"""What a step that is not made as it should be raises while it is read."""


def core_of(text: str) -> Hived:
    """Return a scheduler for a configuration in HiveD's format."""
    return Hived(Cluster(read_config(text)))


def replay(core: Hived, steps: Iterable[Step]) -> Iterator[Answer]:
    """Carry out steps one after the other and yield what each is answered with."""
    for step in steps:
        try:
            yield carry_out(core, step)
        except Refused as refused:
            yield {"answer": "refused", **refused.as_dict()}


def carry_out(core: Hived, step: Step) -> Answer:
    """Carry out one step and return its answer; raise Refused where the scheduler does, or if it cannot be read."""
    op = step.get("op") if isinstance(step, Mapping) else None
    read = READERS.get(op) if isinstance(op, str) else None
    if read is None:
        message = f"there is no step {op!r} in a history; there are {', '.join(READERS)}"
        raise Refused("InvalidParametersError", message, "correct `op`")
    try:
        action = read(core, step)
    except UNREADABLE as error:
        problem = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        message = f"a step {op!r} cannot be read: {problem}"
        raise Refused("InvalidParametersError", message, "write the step as docs/scheduler.md lists it") from error
    return action() or {"answer": "done"}


Reader = Callable[[Hived, Step], Callable[[], Answer | None]]
"""Reads a step and returns what carries it out, so that nothing has happened if it cannot be read."""


def _schedule(core: Hived, step: Step) -> Callable[[], Answer]:
    request, now_ms = request_in(step["gang"]), _time(step, "now_ms")
    return lambda: decision_out(core.schedule(request, now_ms))


def _commit(core: Hived, step: Step) -> Callable[[], None]:
    return partial(core.commit, _name(step), _time(step, "at_ms"))


def _release(core: Hived, step: Step) -> Callable[[], None]:
    members = step.get("members")
    return partial(core.release, _name(step), None if members is None else [_number(member) for member in members])


def _cancel(core: Hived, step: Step) -> Callable[[], None]:
    return partial(core.cancel, _name(step))


def _checkpoint(core: Hived, step: Step) -> Callable[[], None]:
    return partial(core.checkpointed, _name(step), _number(step["at_ms"]))


def _nodes(core: Hived, step: Step) -> Callable[[], None]:
    return partial(core.set_nodes, {str(name): _health(health) for name, health in step["nodes"].items()})


def _restore(core: Hived, step: Step) -> Callable[[], Answer]:
    request, since_ms = request_in(step["gang"]), _time(step, "since_ms")
    spots = [None if spot is None else Spot(str(spot[0]), _numbers(spot[1])) for spot in step["spots"]]
    types = [None if name is None else str(name) for name in step.get("cell_types", ())]
    return lambda: {"answer": "done", "is_guaranteed": core.restore(request, spots, since_ms, types)}


def _reconfigure(core: Hived, step: Step) -> Callable[[], Answer]:
    config = read_config(step["config"])
    return lambda: {"answer": "done", **asdict(core.reconfigure(config))}


def _snapshot(core: Hived, step: Step) -> Callable[[], Answer]:
    return lambda: {"answer": "done", "snapshot": core.snapshot()}


def _restored(core: Hived, step: Step) -> Callable[[], None]:
    return core.restored


READERS: Final[Mapping[str, Reader]] = {
    "schedule": _schedule,
    "commit": _commit,
    "release": _release,
    "cancel": _cancel,
    "checkpoint": _checkpoint,
    "nodes": _nodes,
    "restore": _restore,
    "restored": _restored,
    "reconfigure": _reconfigure,
    "snapshot": _snapshot,
}


def decision_out(decision: Decision) -> Answer:
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
        "message": decision.message,
        "unblock": decision.unblock,
        "counts": dict(decision.counts),
    }


def _name(step: Step) -> str:
    if not isinstance(step["gang"], str):
        raise TypeError("`gang` is not a name")
    return step["gang"]


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _numbers(values: Sequence[object]) -> tuple[int, ...]:
    return tuple([_number(value) for value in values])


def _time(step: Step, key: str) -> int | None:
    value = step.get(key)
    return None if value is None else _number(value)


def _health(data: Mapping[str, Any]) -> NodeHealth:
    return NodeHealth(
        bool(data.get("is_healthy", True)),
        bool(data.get("is_draining", False)),
        frozenset(_numbers(data.get("bad_devices", ()))),
    )
