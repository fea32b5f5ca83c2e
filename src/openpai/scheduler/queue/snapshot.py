"""Writes the whole scheduler as plain data, with queue, limits, use and nodes, and reads it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from openpai.scheduler.cells.cluster import Freed
from openpai.scheduler.cells.core import Hived
from openpai.scheduler.cells.snapshot import request_in, request_out
from openpai.scheduler.model import Ask, Gang, Group, Limit, Node, Order, Topology, plain
from openpai.scheduler.queue.backfill import kept_in
from openpai.scheduler.queue.fairness import Owner
from openpai.scheduler.queue.look_times import LookTimes
from openpai.scheduler.queue.moves import MoveBook
from openpai.scheduler.queue.requests import GangRequests
from openpai.scheduler.queue.running import RunningGang, RunningGangs
from openpai.scheduler.queue.state import SchedulerState
from openpai.scheduler.queue.waiting_queue import Waiting

FORMAT: Final = 2


def dump(state: SchedulerState) -> dict[str, Any]:
    """Return the state as plain data that JSON can hold."""
    state.sync_nodes()
    running = state.running
    uncountable = [(gang, number, 0) for gang, number, _ in state.uncountable.values()]
    return {
        "format": FORMAT,
        "core": state.core.snapshot(),
        "nodes": [
            {**plain(node), "bad_devices": sorted(node.bad_devices)} for _, node in sorted(state.machines.nodes.items())
        ],
        "skus": state.machines.skus.dump(),
        "now_ms": state.now_ms,
        "patience_ms": state.patience_ms,
        "number": state.number,
        "waiting": [
            {"gang": plain(gang), "number": number, "turn": turn}
            for gang, number, turn in [
                *((each.gang, each.number, each.turn) for each in state.queue.all()),
                *uncountable,
            ]
        ],
        "reserving": [
            {
                **_requests_out(each.gang, each.number, each.requests),
                "turn": each.turn,
                "preempted_at_ms": each.preempted_at_ms,
                "moved_for": each.moved_for,
            }
            for each in state.reserving.values()
        ],
        "held": [
            {
                **_requests_out(held.gang, held.number, held.requests),
                "since_ms": held.since_ms,
                "is_proposed": held.is_proposed,
                "left": sorted(held.left),
                "is_lent": held.is_lent,
            }
            for held in running.gangs.values()
        ],
        "changes": _changes_out(running),
        "ended": [{"gang": plain(gang), "since_ms": since_ms} for gang, since_ms in running.ended],
        "limits": [plain(limit) for limit in running.limits.limits],
        "half_life_ms": running.ledger.half_life_ms,
        "turns_given": {name: list(given) for name, given in state.turns_given.items()},
        "orders": {name: order.value for name, order in state.orders.items()},
        "use": running.ledger.dump(),
        "kept": [kept.dump() for kept in state.kept.values()],
        "drains": state.drains.dump(),
        "moves": state.moves.dump(),
        "run_times": running.run_times.dump(),
        "memory": _memory_out(state),
    }


def _changes_out(running: RunningGangs) -> list[list[Any]]:
    """Return what was taken and left by each user since use was last counted."""
    found: Counter[Owner] = Counter()
    for owner, devices in running.changes:
        found[owner] += devices
    return [[*owner, devices] for owner, devices in sorted(found.items())]


def load(data: Mapping[str, Any]) -> SchedulerState:
    """Return the state that was dumped."""
    nodes = {row["name"]: _node_in(row) for row in data["nodes"]}
    state = SchedulerState(Hived.from_snapshot(data["core"]), data["patience_ms"], nodes)
    state.machines.skus.load(data.get("skus", {}))
    state.number, state.now_ms = data["number"], data["now_ms"]
    state.sync_nodes()
    running = state.running
    running.limits.set([Limit(**row) for row in data["limits"]])
    running.ledger.half_life_ms = data["half_life_ms"]
    running.ledger.load(data["use"], state.now_ms)
    running.run_times.load(data["run_times"])
    state.orders = {name: Order(value) for name, value in data["orders"].items()}
    state.turns_given = {name: (given[0], given[1]) for name, given in data["turns_given"].items()}
    # Without their idle time they are of an earlier version, which named physical cells: cells are chosen again.
    state.kept = {row["virtual_cluster"]: kept_in(row) for row in data["kept"] if "idle_ms" in row}
    state.drains.load(data.get("drains", {}))
    state.moves = MoveBook.load(data.get("moves", {}))
    for move in state.moves.open.values():
        state.link_kept(move)
        if move.left_ms is not None:
            running.limits.run((move.virtual_cluster, move.user), move.gpus)
    for row in data["held"]:
        gang, requests = gang_in(row["gang"]), _requests_in(row)
        left = set(row["left"])
        state.hold(
            RunningGang(gang, requests, row["number"], row["since_ms"], row["is_proposed"], left, row["is_lent"])
        )
    if "changes" in data:
        running.changes = [((name, user), devices) for name, user, devices in data["changes"]]
    else:
        running.settle_use(state.now_ms)
    running.ended = [(gang_in(row["gang"]), row["since_ms"]) for row in data.get("ended", ())]
    for row in data["reserving"]:
        waiting = Waiting(gang_in(row["gang"]), _requests_in(row), row["number"], row["preempted_at_ms"])
        waiting.turn, waiting.moved_for = row.get("turn", 0), row.get("moved_for", "")
        state.reserve(waiting)
        state.link_parts(waiting.gang.id, waiting.requests)
    for row in data["waiting"]:
        state.enqueue(gang_in(row["gang"]), row["number"], row["turn"])
    if "memory" in data:
        _take_memory(state, data["memory"])
    return state


def _memory_out(state: SchedulerState) -> dict[str, Any]:
    """Return what was looked at, when, and how often something was freed before and since.

    Without it, as in snapshots of earlier versions, everything is looked at again at once. That starts no other gang,
    but cells to keep would be chosen again, gangs to move be searched again and turns given again, sooner than else.
    """
    cluster = state.core.cluster
    return {
        "queue": state.queue.dump(),
        "freed": cluster.freed,
        "watching": {chain: sorted(names) for chain, names in sorted(cluster.watching.items())},
        "promoted_at": state.promoted_at,
        "retry_ms": state.retry_ms,
        "again_ms": state.look_times.dump(),
        "is_eased": state.running.limits.is_eased,
    }


def _take_memory(state: SchedulerState, data: Mapping[str, Any]) -> None:
    cluster = state.core.cluster
    state.queue.load(data["queue"])
    cluster.freed = Freed(data["freed"])
    cluster.watching = {chain: set(names) for chain, names in data["watching"].items()}
    state.promoted_at = dict(data["promoted_at"])
    state.retry_ms, state.look_times = dict(data["retry_ms"]), LookTimes(data["again_ms"])
    state.running.limits.is_eased = data["is_eased"]


def _node_in(row: Mapping[str, Any]) -> Node:
    # `told` is the message's name in earlier versions.
    known = {"message" if name == "told" else name: value for name, value in row.items()}
    return Node(**{**known, "bad_devices": frozenset(row["bad_devices"])})


def gang_in(row: Mapping[str, Any]) -> Gang:
    """Return the gang from plain data."""
    topology = row["topology"]
    groups = tuple([_group_in(group) for group in row["groups"]])
    asks = tuple([Ask(**ask) for ask in row["asks"]])
    return Gang(
        **{**row, "asks": asks, "groups": groups, "topology": None if topology is None else Topology(**topology)}
    )


def _group_in(row: Mapping[str, Any]) -> Group:
    return Group(**{**row, "members": tuple(row["members"]), "cell_types": tuple(row.get("cell_types", ()))})


def _requests_out(gang: Gang, number: int, requests: GangRequests) -> dict[str, Any]:
    rows = [{"request": request_out(request), "members": list(request.positions)} for request in requests]
    return {"gang": plain(gang), "number": number, "portions": rows}


def _requests_in(row: Mapping[str, Any]) -> GangRequests:
    rows = row["portions"]
    return tuple([replace(request_in(each["request"]), positions=tuple(each["members"])) for each in rows])
