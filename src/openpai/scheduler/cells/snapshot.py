"""Writes the core's whole state as plain data and reads it again, so that a decision can be repeated elsewhere.

A scheduler loaded from a snapshot gives the same answers as the one it was taken from.
"""

from __future__ import annotations

from typing import Any

from openpai.scheduler.cells import mutations
from openpai.scheduler.cells.chain import CellBinding, Guarantee, VcShare
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.journal import Part, reclaim
from openpai.scheduler.cells.model import CellGroup, GangRecord, GangRequest, NodeHealth, State
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
        "holdings": [
            _binding_out(share, held)
            for name in cluster.shares
            for share in cluster.shares_of(name)
            for _, held in sorted(share.bindings.items())
        ],
        "gangs": [_gang_out(record) for _, record in sorted(cluster.gangs.items())],
        # The gangs whose placement hints have yet to be stored again.
        "rebound": sorted(cluster.rebound),
    }


def load(data: dict[str, Any]) -> Cluster:
    """Return the state that was dumped."""
    # A scheduler without a configuration has no text to read.
    cluster = Cluster(read_config(data["config"]) if data["config"] else HivedConfig({}, {}))
    for name, (is_healthy, is_draining, bad) in data["unhealthy"].items():
        health = cluster.unhealthy[name] = NodeHealth(is_healthy, is_draining, frozenset(bad))
        for node_cell in cluster.node_cells.get(name, ()):
            mutations.set_bad(node_cell, health.mask(node_cell))
    for held in data["holdings"]:
        # Snapshots of version 0.1 hold cells that were bound only because they were bad.
        if not held["is_pinned"] and not held.get("is_doomed", False):
            share = _share_in(cluster, held)
            mutations.bind(share, held["level"], held["cell"], held["number"])
    for entry in data["gangs"]:
        cluster.remember(_gang_in(cluster, entry))
    for record in cluster.gangs.values():
        if record.lazily_preempted_by is not None:
            cluster.demote(record, record.lazily_preempted_by)
    cluster.rebound = set(data.get("rebound", ()))
    return cluster


def _share_out(share: VcShare) -> dict[str, Any]:
    return {"virtual_cluster": share.name, "chain": share.chain.spec.name, "pin": share.pin}


def _share_in(cluster: Cluster, data: dict[str, Any]) -> VcShare:
    if data["pin"] is not None:
        return cluster.pins[data["virtual_cluster"], data["pin"]]
    return cluster.shares[data["virtual_cluster"]][data["chain"]]


def _binding_out(share: VcShare, held: CellBinding) -> dict[str, Any]:
    return {
        **_share_out(share),
        "level": held.level,
        "cell": held.index,
        "number": held.number,
        "is_pinned": held.is_pinned,
    }


def _guarantee_out(guarantee: Guarantee | None) -> dict[str, Any] | None:
    if guarantee is None:
        return None
    return {**_share_out(guarantee.share), "level": guarantee.level, "cell": guarantee.cell, "number": guarantee.number}


def _guarantee_in(cluster: Cluster, data: dict[str, Any]) -> Guarantee:
    return Guarantee(_share_in(cluster, data), data["level"], data["cell"], data["number"])


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
        "checkpoint_every_ms": request.checkpoint_every_ms,
    }


def request_in(data: dict[str, Any]) -> GangRequest:
    """Return the request from plain data, with defaults for missing keys."""
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
        data.get("checkpoint_every_ms"),
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
                "chain": part.node_cell.chain.spec.name,
                "node": part.node_cell.index,
                "mask": part.mask,
                "right": _guarantee_out(part.guarantee),
            }
            for part in record.parts
        ],
        "state": record.state.value,
        "since_ms": record.since_ms,
        "checkpoint_ms": record.checkpoint_ms,
        "victims": sorted(record.victims),
        "threats": sorted(record.threats),
        "lost": {str(member): _guarantee_out(guarantee) for member, guarantee in sorted(record.lost.items())},
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
        part = Part(cluster.chains[entry["chain"]].node_cells[entry["node"]], entry["mask"])
        if entry["right"] is None:
            mutations.run_opportunistic(request.id, part.node_cell, part.mask)
        else:
            reclaim(request.id, request.priority, part, _guarantee_in(cluster, entry["right"]))
        parts.append(part)
    return GangRecord(
        request,
        parts,
        State(data["state"]),
        data["since_ms"],
        data["checkpoint_ms"],
        set(data["victims"]),
        set(data["threats"]),
        {int(member): _guarantee_in(cluster, guarantee) for member, guarantee in data["lost"].items()},
        data["lazily_preempted_by"],
        tuple(None if spot is None else Spot(spot[0], tuple(spot[1])) for spot in data["spots"]),
    )
