"""The audit log."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import audit

_AUDIT_CSV: Final = "id,time,actor,action,target,owner,via,address,status,detail\r\n"
_FILE: Final = {"Content-Disposition": "of CSV: the name of the file"}
OPERATIONS: Final[dict[str, Operation]] = {
    "GET /api/v2/audit": Operation(
        "listAuditEntries", "Read the audit log", audit.AuditPage, media={"text/csv": _AUDIT_CSV}, headers=_FILE
    ),
}
