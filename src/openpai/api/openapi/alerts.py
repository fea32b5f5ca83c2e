"""Alerts."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import alerts

OPERATIONS: Final[dict[str, Operation]] = {
    "GET /api/v2/alerts": Operation("listAlerts", "List alerts", list[alerts.Alert]),
}
