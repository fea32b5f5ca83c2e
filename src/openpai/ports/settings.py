"""What administrators set while the platform runs: documents by name, each with a version, and notes about nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

CLUSTER: Final = "cluster"
"""Name of the document that says who was promised what: `{"promises": TEXT}` for `planning.read_promises` (everything
left goes to `default`), or `{"hived": TEXT}` with a whole configuration in HiveD's format."""
DRAINS: Final = "drains"
"""`{"deadlines": {NODE: MS}}`: until when jobs may run on nodes that are drained."""
FAIRNESS: Final = "fairness"
"""`{"halfLifeHours": NUMBER or null}`."""

PLACEMENT_HINTS: Final = "seats"
"""What the scheduler needs to restore gangs whose promised cells changed since they were placed, kept by the leader:
`{"gangs": {GANG: [SEAT, ...]}}`."""


ORDERS: Final = "orders"
"""`{"orders": {VIRTUAL_CLUSTER: "fair", "fifo" or "shortest"}}`; `fair` where none is named."""


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
    """What is remembered of a node beyond what the backend sees."""

    name: str
    cpus: int = 0
    memory_mb: int = 0
    gpus: int = 0
    gpu_model: str = ""
    is_drained: bool = False
    """Takes nothing new; what runs there runs on."""
    bad_devices: frozenset[int] = field(default=frozenset())
    """Devices an administrator marked as bad."""
    reason: str = ""
    """Why it is drained."""
    changed_by: str = ""
    bad_because: str = ""
    """Why the administrator's devices are marked."""


class SettingsStore(Protocol):
    """Remembers settings and notes about nodes."""

    async def setting(self, name: str) -> Setting | None:
        """Return a document, None if it was never set."""
        ...

    async def set_setting(
        self, name: str, body: Mapping[str, Any], *, by: str, at_ms: int, version: int | None = None
    ) -> Setting:
        """Replace a document; raise Refused ConflictSettingError if it is not at `version` any more (None: any)."""
        ...

    async def node_notes(self) -> tuple[NodeNote, ...]:
        """Return the notes about every node, by name."""
        ...

    async def learn_nodes(self, notes: tuple[NodeNote, ...]) -> None:
        """Remember the sizes and models of these nodes; whatever an administrator said of them stays."""
        ...

    async def set_node_notes(self, notes: tuple[NodeNote, ...]) -> None:
        """Remember or replace these notes."""
        ...

    async def forget_nodes(self, names: tuple[str, ...]) -> None:
        """Forget the notes about these nodes."""
        ...
