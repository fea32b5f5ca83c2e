"""Reports of use."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import reports

_USE_CSV: Final = "user,gpuHours,cpuHours,memoryGbHours,taskAttempts\r\nann,12.5,100,800,3\r\ntotal,12.5,100,800,3\r\n"
_FILE: Final = {"Content-Disposition": "of CSV: the name of the file"}
OPERATIONS: Final[dict[str, Operation]] = {
    "GET /api/v2/reports/use": Operation(
        "reportUse", "Report use", reports.UsageReport, media={"text/csv": _USE_CSV}, headers=_FILE
    ),
}
