"""The queries that OpenPAI's old portal sends to Prometheus, answered from what the platform knows of its nodes.

This is no query language: each row of the table is one query of the portal's source. The portal's hardware page shows
use in percent; what is answered is how much of a node jobs hold, because real use is not measured. A query about what
is neither held nor measured, such as traffic or the use that a job makes of its GPUs, finds nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from openpai.ports.platform import NodeView
from openpai.wire import prometheus as wire

Kind = Literal["vector", "matrix"]

HELD: Final = "the values are what jobs hold of each node; real use is not measured"
NOT_MEASURED: Final = "this platform does not measure what the query asks for"
ONLY_NOW: Final = "this platform keeps no history: it knows only values of now"
NEAR_S: Final = 300.0
"""How far from now a time may lie and still mean now: as far as Prometheus itself looks back."""
_MIB: Final = 1024 * 1024
# The portal takes what stands before the colon for the address; the number is the one of OpenPAI's node exporter.
_PORT: Final = 9100


@dataclass(frozen=True, slots=True)
class _Query:
    """A query that can be answered: its text without white space, and the value that a node has."""

    text: str
    value: Callable[[NodeView], float | None]
    name: str = ""
    """The name of the metric, which Prometheus leaves away from what was calculated."""
    is_held: bool = True


_QUERIES: Final = (
    _Query("node_uname_info", lambda node: 1, "node_uname_info", is_held=False),
    _Query(
        r'100-(avgby(instance)(irate(node_cpu_seconds_total{mode="idle"}[T]))*100)',
        lambda node: _percent(node.cpus_used, node.cpus_total),
    ),
    _Query(
        "node_memory_MemTotal_bytes-node_memory_MemFree_bytes-node_memory_Buffers_bytes-node_memory_Cached_bytes",
        lambda node: node.memory_mb_used * _MIB,
    ),
    _Query(
        "node_memory_MemTotal_bytes", lambda node: node.memory_mb_total * _MIB, "node_memory_MemTotal_bytes",
        is_held=False,
    ),
    _Query("avgby(instance)(gpu_utilization)", lambda node: _percent(node.gpus_used, node.gpus_total)),
)  # fmt: skip
_ANSWERED: Final = {query.text: query for query in _QUERIES}
_RANGE: Final = re.compile(r"\[\w{1,20}\]")


def is_answered(query: str) -> bool:
    """Return whether a query is one of the table."""
    return _plain(query) in _ANSWERED


def found(query: str, nodes: Sequence[NodeView], at_s: float, kind: Kind) -> wire.Metrics:
    """Return what a query of the table finds, as values of one time."""
    row = _ANSWERED[_plain(query)]
    results: list[dict[str, Any]] = []
    shared = _shared(nodes)
    for node in nodes:
        value = row.value(node)
        if value is not None:
            point = [at_s, f"{value:.15g}"]
            one = {"value": point} if kind == "vector" else {"values": [point]}
            results.append({"metric": _labels(row, node, shared), **one})
    return _document(kind, results, [HELD] if row.is_held else [])


def nothing(kind: Kind, why: str) -> wire.Metrics:
    """Return that a query found nothing, and why."""
    return _document(kind, [], [why])


def _document(kind: Kind, results: list[dict[str, Any]], warnings: list[str]) -> wire.Metrics:
    return {"status": "success", "data": {"resultType": kind, "result": results}, "warnings": warnings}


def _plain(query: str) -> str:
    """Return a query without what makes no difference: white space, and the span that a rate is taken over."""
    return _RANGE.sub("[T]", "".join(query.split()))


def _labels(row: _Query, node: NodeView, shared: frozenset[str]) -> dict[str, Any]:
    # Nodes on one address, and addresses with colons, would fall together in the portal.
    host = node.name if node.address in shared or ":" in node.address or not node.address else node.address
    labels = {"instance": f"{host}:{_PORT}"}
    if row.name:
        labels["__name__"] = row.name
    if row.text == "node_uname_info":
        labels["nodename"] = node.name
    return labels


def _shared(nodes: Sequence[NodeView]) -> frozenset[str]:
    """Return the addresses that several nodes have."""
    return frozenset(address for address, count in Counter(node.address for node in nodes).items() if count > 1)


def _percent(used: float, total: float) -> float | None:
    return 100 * used / total if total else None
