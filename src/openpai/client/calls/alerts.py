"""Alerts: what needs attention."""

from __future__ import annotations

from openpai.client import model
from openpai.client.calls_core import Call, asks, listed


class Alerts:
    """What needs attention."""

    @asks
    def alerts(self) -> Call[tuple[model.Alert, ...]]:
        """Return alerts: about one's own jobs, and for administrators all."""
        return Call("GET", "/alerts", listed(model.Alert.read))
