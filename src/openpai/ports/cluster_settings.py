"""Settings of the cluster that administrators change while it runs: versioned documents by name, and notes about nodes.

The settings of one server, such as its port, are `app.settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

CLUSTER: Final = "cluster"
"""The promises to virtual clusters: `{"promises": TEXT}` for `planning.read_promises` (what is left goes to `default`),
or `{"hived": TEXT}` with a whole configuration in HiveD's format."""
DRAINS: Final = "drains"
"""`{"deadlines": {NODE: MS}}`: until when jobs may run on nodes that are drained."""
FAIRNESS: Final = "fairness"
"""`{"halfLifeHours": NUMBER or null}`."""

PLACEMENT_HINTS: Final = "seats"
"""What the scheduler needs to restore gangs whose promised cells changed since they were placed, written by the leader:
`{"gangs": {GANG: [PLACEMENT_HINT, ...]}}`."""
ORDERS: Final = "orders"
"""`{"orders": {VIRTUAL_CLUSTER: "fair", "fifo" or "shortest"}, "interruptible": {VIRTUAL_CLUSTER: true or false},
"moveJobs": {VIRTUAL_CLUSTER: true or false}, "hangMinutes": {VIRTUAL_CLUSTER: NUMBER}}`;
for a virtual cluster that is not named, what the configuration says holds, and else `fair` and false."""

ACCURACY: Final = "accuracy"
"""`{"starts": {VIRTUAL_CLUSTER: "1101"}}`: which of the latest starts that were estimated came within the range, oldest
first; written by the leader. How good guesses of run times are is derived from the history of jobs instead."""

MARKED: Final = "markedDevices"
"""`{"nodes": {NODE: {INDEX: IDENTITY}}}`: which devices administrators marked as bad, where that is known: on some
nodes a device may change its index. Written by the leader."""

LOGS: Final = "logs"
"""`{"place": IDENTITY}`: the directory into which logs come, where servers have one each; written by the
leader."""

EXIT_SPECS: Final = "exit-specs"
"""`{"edits": {NAME: BODY}, "based": {NAME: FINGERPRINT}, "revision": N, "history": [REVISION, ...]}`: exit specs as
administrators changed them, the bundled ones that they replace, and every change, the newest last."""

ALERT_RULES: Final = "alert-rules"
"""`{"edits": {NAME: TEXT}, "based": {NAME: FINGERPRINT}, "revision": N, "history": [REVISION, ...]}`: alert rules as
administrators changed them, as `EXIT_SPECS`."""

ALERT_SILENCES: Final = "alert-silences"
"""`{"silences": [{"id", "matchers", "from_ms", "to_ms", "by", "comment"}, ...]}`."""

ANNOUNCEMENTS: Final = "announcements"
"""`{"announcements": [{"id", "text", "level", "from_ms", "to_ms", "by"}, ...]}`, the oldest first."""

LEMONS: Final = "lemons"
"""`{"strikes": [{"node", "user", "job", "cause", "at_ms", "devices", "virtual_cluster", "is_sure", "rule"}, ...],
"drained": [NODE, ...]}`: failures that nodes are blamed for, the oldest first, and the nodes that were drained for
their score; written by the leader."""
LEMON_POLICY: Final = "lemon-policy"
"""`{"threshold": NUMBER}`: the score at which a node is drained; 0 for never."""

MARKET: Final = "market"
"""`{"approval": true or false, "seeded": [NAME, ...]}`: whether administrators approve items of the marketplace, and
which built-in ones were added once."""

KUBERNETES: Final = "kubernetes"
"""`{"secret": HEX}`: what seals the pods of the platform; made by the first server that needs it."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A document as it was set last."""

    name: str
    body: Mapping[str, Any]
    version: int
    changed_at_ms: int
    changed_by: str


@dataclass(frozen=True, slots=True)
class NodeNote:
    """What is stored about a node beyond what the backend reports."""

    name: str
    cpus: int = 0
    memory_mb: int = 0
    gpus: int = 0
    gpu_model: str = ""
    is_drained: bool = False
    """Takes no new tasks; those that run there run on."""
    bad_devices: frozenset[int] = field(default=frozenset())
    """Devices an administrator marked as bad."""
    reason: str = ""
    """Why it is drained."""
    changed_by: str = ""
    bad_because: str = ""
    """Why the administrator's devices are marked."""


class SettingsStore(Protocol):
    """Stores settings and notes about nodes.

    `epoch` is the lease of a caller that leads: a write raises LeaseLost, writing nothing, when it is no longer the
    newest. None for a write that any server may make.
    """

    async def setting(self, name: str) -> Setting | None:
        """Return a document, None if it was never set."""

    async def settings(self, *names: str) -> Mapping[str, Setting]:
        """Return those of these documents that were ever set, by name, all as they were at one time."""

    async def set_setting(
        self,
        name: str,
        body: Mapping[str, Any],
        *,
        by: str,
        at_ms: int,
        version: int | None = None,
        epoch: int | None = None,
    ) -> Setting:
        """Replace a document; raise Refused ConflictSettingError if it is not at `version` any more (None: any)."""

    async def node_notes(self) -> tuple[NodeNote, ...]:
        """Return the notes about every node, by name."""

    async def learn_nodes(self, notes: tuple[NodeNote, ...], epoch: int | None) -> None:
        """Store the sizes and models of these nodes; the notes of administrators stay."""

    async def set_node_notes(self, notes: tuple[NodeNote, ...], epoch: int | None) -> None:
        """Store or replace these notes."""

    async def forget_nodes(self, names: tuple[str, ...], epoch: int | None) -> None:
        """Delete the notes about these nodes."""
