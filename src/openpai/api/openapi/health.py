"""Whether the server is alive and ready."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import health

OPERATIONS: Final[dict[str, Operation]] = {
    "GET /readyz": Operation("getReadiness", "Show whether jobs can be submitted and run", health.Readiness),
    "GET /healthz": Operation("getHealth", "Show that this server is alive", health.Health),
}
