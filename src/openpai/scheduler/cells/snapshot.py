"""The scheduler's whole state as plain data, and back: to look at a decision later, elsewhere, as often as one likes.

A scheduler loaded from a snapshot gives the same answers as the one it was taken from.
"""

from __future__ import annotations

from typing import Any

from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.journal import Part, Right, reclaim
from openpai.scheduler.cells.model import CellGroup, GangRecord, GangRequest, NodeHealth, State
from openpai.scheduler.cells.node_cell import Holding
from openpai.scheduler.cells.vc_share import View
from openpai.scheduler.config.model import HivedConfig
from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Spot, Topology

FORMAT = 1


def dump(cluster: Cluster) -> dict[str, Any]:
    """Return the state as plain data that JSON can hold."""
    return {
        "format": FORMAT,
        "config": cluster.config.text,
        "unhealthy": {
            name: [health.is_healthy, health.is_draining, sorted(health.bad_devices)]
            for name, health in sorted(cluster.unhealthy.items())
        },
        "holdings": [_holding_out(view, held) for view in _views(cluster) for _, held in sorted(view.holdings.items())],
        "gangs": [_gang_out(record) for _, record in sorted(cluster.gangs.items())],
    }


def load(data: dict[str, Any]) -> Cluster:
    """Return the state that was dumped."""
    # A scheduler that nobody configured yet has no text to read.
    cluster = Cluster(read_config(data["config"]) if data["config"] else HivedConfig({}, {}))
    for name, (is_healthy, is_draining, bad) in data["unhealthy"].items():
        health = cluster.unhealthy[name] = NodeHealth(is_healthy, is_draining, frozenset(bad))
        for box in cluster.boxes.get(name, ()):
            box.chain.set_bad(box, health.mask(box))
    for held in data["holdings"]:
        # Snapshots of version 0.1 hold cells that were bound only because they were bad.
        if not held["is_pinned"] and not held.get("is_doomed", False):
            view = _view_in(cluster, held)
            view.chain.bind(view, held["level"], held["cell"], held["number"])
    for entry in data["gangs"]:
        cluster.remember(_gang_in(cluster, entry))
    for record in cluster.gangs.values():
        if record.lazily_preempted_by is not None:
            cluster.demote(record, record.lazily_preempted_by)
    return cluster


def _views(cluster: Cluster) -> list[View]:
    return [view for name in cluster.views for view in cluster.views_of(name)]


def _view_out(view: View) -> dict[str, Any]:
    return {"virtual_cluster": view.name, "chain": view.chain.spec.name, "pin": view.pin}


def _view_in(cluster: Cluster, data: dict[str, Any]) -> View:
    if data["pin"] is not None:
        return cluster.pins[data["virtual_cluster"], data["pin"]]
    return cluster.views[data["virtual_cluster"]][data["chain"]]


def _holding_out(view: View, held: Holding) -> dict[str, Any]:
    return {
        **_view_out(view),
        "level": held.level,
        "cell": held.index,
        "number": held.number,
        "is_pinned": held.is_pinned,
    }


def _right_out(right: Right | None) -> dict[str, Any] | None:
    if right is None:
        return None
    return {**_view_out(right.view), "level": right.level, "cell": right.cell, "number": right.number}


def _right_in(cluster: Cluster, data: dict[str, Any]) -> Right:
    return Right(_view_in(cluster, data), data["level"], data["cell"], data["number"])


def request_out(request: GangRequest) -> dict[str, Any]:
    """Return a request as plain data."""
    topology = request.topology
    return {
        "id": request.id,
        "virtual_cluster": request.virtual_cluster,
        "members": [list(member) for member in request.members],
        "priority": request.priority,
        "leaf_type": request.leaf_type,
        "pinned_cell": request.pinned_cell,
        "is_lazily_preemptible": request.is_lazily_preemptible,
        "topology": None if topology is None else [topology.cell_type, topology.is_required],
        "nodes": None if request.nodes is None else sorted(request.nodes),
        "groups": [_group_out(group) for group in request.groups],
    }


def request_in(data: dict[str, Any]) -> GangRequest:
    """Return the request that was put out; what is missing has its default."""
    topology = data.get("topology")
    nodes = data.get("nodes")
    for key in ("id", "virtual_cluster"):
        if not isinstance(data[key], str):
            raise TypeError(f"`{key}` is not a name")
    return GangRequest(
        data["id"],
        data["virtual_cluster"],
        tuple((_whole(count), _whole(leaves)) for count, leaves in data["members"]),
        _whole(data.get("priority", 0)),
        data.get("leaf_type"),
        data.get("pinned_cell"),
        data.get("is_lazily_preemptible", False),
        None if topology is None else Topology(topology[0], topology[1]),
        None if nodes is None else frozenset(nodes),
        tuple([_group_in(group) for group in data.get("groups", ())]),
    )


def _group_out(group: CellGroup) -> dict[str, Any]:
    inner = [_group_out(each) for each in group.groups]
    return {"cell_type": group.cell_type, "members": list(group.members), "groups": inner}


def _group_in(data: dict[str, Any]) -> CellGroup:
    members = tuple([_whole(member) for member in data.get("members", ())])
    return CellGroup(str(data["cell_type"]), members, tuple([_group_in(each) for each in data.get("groups", ())]))


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _gang_out(record: GangRecord) -> dict[str, Any]:
    return {
        "request": request_out(record.request),
        "parts": [
            None
            if part is None
            else {
                "chain": part.box.chain.spec.name,
                "node": part.box.index,
                "mask": part.mask,
                "right": _right_out(part.right),
            }
            for part in record.parts
        ],
        "state": record.state.value,
        "since_ms": record.since_ms,
        "checkpoint_ms": record.checkpoint_ms,
        "victims": sorted(record.victims),
        "threats": sorted(record.threats),
        "lost": {str(member): _right_out(right) for member, right in sorted(record.lost.items())},
        "lazily_preempted_by": record.lazily_preempted_by,
        "spots": [None if spot is None else [spot.node, list(spot.devices)] for spot in record.spots],
    }


def _gang_in(cluster: Cluster, data: dict[str, Any]) -> GangRecord:
    request = request_in(data["request"])
    parts: list[Part | None] = []
    for entry in data["parts"]:
        if entry is None:
            parts.append(None)
            continue
        part = Part(cluster.chains[entry["chain"]].boxes[entry["node"]], entry["mask"])
        if entry["right"] is None:
            part.box.chain.squat(request.id, part.box, part.mask)
        else:
            reclaim(request.id, request.priority, part, _right_in(cluster, entry["right"]))
        parts.append(part)
    return GangRecord(
        request,
        parts,
        State(data["state"]),
        data["since_ms"],
        data["checkpoint_ms"],
        set(data["victims"]),
        set(data["threats"]),
        {int(member): _right_in(cluster, right) for member, right in data["lost"].items()},
        data["lazily_preempted_by"],
        tuple(None if spot is None else Spot(spot[0], tuple(spot[1])) for spot in data["spots"]),
    )
