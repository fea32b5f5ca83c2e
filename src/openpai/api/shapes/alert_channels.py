"""Channels of messages as documents, without credentials."""

from __future__ import annotations

from typing import Any, cast

from openpai.ports.alerts import Channel
from openpai.wire import alert_channels as wire


def channel(found: Channel) -> wire.AlertChannel:
    """Return a channel."""
    return {
        "name": found.name,
        "kind": cast("Any", found.kind),
        "data": dict(found.data),
        "secrets": ["sealed"] if found.sealed is not None else [],
        "changedBy": found.changed_by,
        "changedTime": found.changed_at_ms,
    }
