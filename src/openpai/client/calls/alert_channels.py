"""Channels of messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openpai.client import model
from openpai.client.calls.naming import segment
from openpai.client.calls_core import Call, asks, given, listed, nothing, whole


def _path(name: str) -> str:
    return f"/alert-channels/{segment(name, 'a channel')}"


class AlertChannels:
    """The ways by which messages leave the platform."""

    @asks
    def alert_channels(self) -> Call[tuple[model.AlertChannel, ...]]:
        """Return every channel, by name, without credentials."""
        return Call("GET", "/alert-channels", listed(model.AlertChannel.read))

    @asks
    def set_alert_channel(self, name: str, kind: str, data: Mapping[str, Any]) -> Call[model.AlertChannel]:
        """Add or replace a channel: mail, webhook, slack, teams or alertmanager."""
        body = {"kind": kind, "data": dict(data)}
        return Call("PUT", _path(name), whole(model.AlertChannel.read), json=body)

    @asks
    def remove_alert_channel(self, name: str) -> Call[None]:
        """Remove a channel."""
        return Call("DELETE", _path(name), nothing)

    @asks
    def check_alert_channel(self, name: str, to: str | None = None) -> Call[None]:
        """Send a test message by a channel; raise what its server says."""
        return Call("POST", f"{_path(name)}/test", nothing, json=given(to=to))
