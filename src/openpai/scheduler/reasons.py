"""Why a gang does not run, in sentences its owner understands, and what would change that.

The sentence names the first thing that is really missing: a kind of resource on one node, then all resources
together on one node, then enough nodes at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from openpai.scheduler.model import Gang, Why
from openpai.scheduler.packing import Amount, Machine, Pool, amount_of, total_of

NO_NODE_YET: Final = "no node has joined the cluster yet"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why the first gang of a queue waits."""

    code: Why
    told: str
    unblock: str
    gang: str = ""


@dataclass(frozen=True, slots=True)
class Lack:
    """What is missing, as two halves of a sentence, and whether there is enough of it when put together."""

    needs: str
    but: str
    wanted: str
    is_scattered: bool


Measure = Callable[[Machine], Amount]


def reason_to_refuse(empty: Pool, gang: Gang) -> str:
    """Return why `gang` does not fit into the whole cluster even when it is empty."""
    lack = _lack(gang, list(empty.machines()), "has")
    return f"it needs {lack.needs}; {lack.but}, even when the whole cluster is empty"


def reason_to_wait(pool: Pool, healthy: Pool, gang: Gang, *, could_run_when_healthy: bool) -> Reason:
    """Return why `gang`, first of its queue, does not fit into what is free now."""
    if not any(True for _ in pool.machines()):
        return Reason(Why.NO_NODE, NO_NODE_YET, "a node that joins the cluster")
    if not could_run_when_healthy:
        return _reason_of_health(healthy, gang)
    lack = _lack(gang, list(pool.open_machines()), "has free")
    code = Why.FRAGMENTED if lack.is_scattered else Why.NOT_ENOUGH_FREE
    return Reason(code, f"it needs {lack.needs}; {lack.but}", f"running jobs that end and leave {lack.wanted} free")


def queue_sentence(gang: Gang, position: int, head: Gang, reason: Reason) -> str:
    """Return why `gang` waits behind others, and what the first of them waits for."""
    count = "1 job" if position == 1 else f"{position} jobs"
    rank = "of higher priority or older" if head.priority > gang.priority else "that came earlier"
    return (
        f"{count} {rank} in virtual cluster {gang.virtual_cluster!r} must start first; "
        f"the first, {head.job or head.id}, waits because {reason.told}"
    )


def _reason_of_health(healthy: Pool, gang: Gang) -> Reason:
    """Return why `gang` cannot run until nodes are repaired, opened or added."""
    machines = list(healthy.machines())
    closed = [machine.name for machine in machines if machine.node is not None and not machine.node.is_schedulable]
    hurt = [machine.name for machine in machines if machine.node is not None and machine.node.bad_devices]
    lack = _lack(gang, list(healthy.open_machines()), "can offer")
    troubles = []
    if closed:
        troubles.append(f"closed or unhealthy: {_list(closed)}")
    if hurt:
        troubles.append(f"with bad devices: {_list(hurt)}")
    if not troubles:
        told = f"it needs {lack.needs}; {lack.but}, even with everything free"
        return Reason(Why.NO_NODE, told, f"nodes that offer {lack.wanted}, or a smaller request")
    told = f"it needs {lack.needs}; {lack.but} while nodes are out of use ({'; '.join(troubles)})"
    return Reason(Why.UNHEALTHY_NODES, told, f"the repair or reopening of nodes that offer {lack.wanted}")


def _lack(gang: Gang, machines: list[Machine], verb: str) -> Lack:
    """Return the first thing that is missing on `machines` for `gang`."""
    for need in sorted({amount_of(ask) for ask in gang.asks}, reverse=True):
        if not any(machine.free().holds(need) for machine in machines):
            return _lack_on_one_node(need, machines, verb)
    whole = total_of(amount_of(ask) for ask in gang.asks)
    free = total_of(_at_least_nothing(machine.free()) for machine in machines)
    for kind in range(3):
        if free[kind] < whole[kind]:
            needs = f"{_say(kind, whole[kind])} for its {len(gang.asks)} tasks at once"
            return Lack(needs, f"all nodes together have {_figure(kind, free[kind])}", _say(kind, whole[kind]), False)
    return _lack_of_nodes(gang, machines)


def _lack_on_one_node(need: Amount, machines: list[Machine], verb: str) -> Lack:
    for kind in range(3):
        best = max(machines, key=lambda machine: (machine.free()[kind], -machine.rank), default=None)
        if best is None:
            return Lack(f"{_say_all(need)} on one node", "no node takes new tasks", "a node that takes tasks", False)
        most = max(0, best.free()[kind])
        if most < need[kind]:
            total = sum(max(0, machine.free()[kind]) for machine in machines)
            but = f"the most any node {verb} is {_figure(kind, most)} (node {best.name})"
            if total >= need[kind]:
                but += f" of {_figure(kind, total)} in all"
            wanted = f"{_say(kind, need[kind])} on one node"
            return Lack(wanted, but, wanted, total >= need[kind])
    wanted = f"{_say_all(need)} together on one node"
    return Lack(wanted, f"no single node {verb} all of that", wanted, True)


def _lack_of_nodes(gang: Gang, machines: list[Machine]) -> Lack:
    """Return how many members of the hardest kind find room when each member by itself would fit."""
    hardest = max(amount_of(ask) for ask in gang.asks)
    members = sum(1 for ask in gang.asks if amount_of(ask) == hardest)
    room = sum(machine.room(hardest, members) for machine in machines)
    needs = f"room for {len(gang.asks)} tasks at once, {members} of them with {_say_all(hardest)} each"
    if room < members:
        return Lack(needs, f"the nodes have room for {room} of those {members}", f"room for all {members}", True)
    return Lack(needs, "what is free lies on too many nodes to hold all of them", "room for all tasks", True)


def _at_least_nothing(amount: Amount) -> Amount:
    return Amount(*(max(0, part) for part in amount))


def _say(kind: int, count: int) -> str:
    """Return an amount with its unit, as in `1 GPU`."""
    if kind == 2:
        return f"{count} MB of memory"
    unit = ("GPU", "CPU")[kind]
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def _figure(kind: int, count: int) -> str:
    return f"{count} MB" if kind == 2 else str(count)


def _say_all(need: Amount) -> str:
    parts = [_say(kind, need[kind]) for kind in range(3) if need[kind]]
    if len(parts) <= 1:
        return "".join(parts) or "nothing"
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _list(names: Iterable[str], at_most: int = 3) -> str:
    names = list(names)
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + more
