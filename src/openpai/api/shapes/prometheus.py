"""The queries that OpenPAI's old portal sends to Prometheus, answered from the state of the nodes.

There is no query language: each row of the table is one query of the portal's source. The portal's hardware page shows
use in percent; the answer is the share of a node that jobs hold, because real use is not measured. Other queries, such
as traffic or the use of GPUs by a job, have an empty result.
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
ONLY_NOW: Final = "this platform keeps no history of these values"
NEAR_S: Final = 300.0
"""How far from the present a time may lie: as far as Prometheus itself looks back."""
_MIB: Final = 1024 * 1024
# The portal reads the address before the colon; the port is that of OpenPAI's node exporter.
_PORT: Final = 9100


@dataclass(frozen=True, slots=True)
class _Query:
    """A query that can be answered: its text without white space, and the value of a node."""

    text: str
    value: Callable[[NodeView], float | None]
    name: str = ""
    """The name of the metric; Prometheus omits it from calculated values."""
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
    """Return whether a query is in the table."""
    return _plain(query) in _ANSWERED


def found(query: str, nodes: Sequence[NodeView], at_s: float, kind: Kind) -> wire.Metrics:
    """Return the result of a query of the table, at one time."""
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
    """Return an empty result with the reason."""
    return _document(kind, [], [why])


def _document(kind: Kind, results: list[dict[str, Any]], warnings: list[str]) -> wire.Metrics:
    return {"status": "success", "data": {"resultType": kind, "result": results}, "warnings": warnings}


def _plain(query: str) -> str:
    """Return a query without white space and without the span of rates."""
    return _RANGE.sub("[T]", "".join(query.split()))


def _labels(row: _Query, node: NodeView, shared: frozenset[str]) -> dict[str, Any]:
    # The portal could not distinguish nodes with the same address, or with colons in it.
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
