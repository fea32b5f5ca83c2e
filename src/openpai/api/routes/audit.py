"""The audit log: who did, or tried to do, what to what."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Request
from pydantic import StringConstraints
from starlette.responses import Response

from openpai.access.deciding import refusal
from openpai.access.model import NOTHING
from openpai.api.answers import CSV, CSV_HEADERS, Reply, reply, text, wants_csv
from openpai.api.context import context_of, needs
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import audit as shapes
from openpai.api.shapes.reports import moment
from openpai.ports.usage import AuditFilter
from openpai.wire.audit import AuditPage

router = Router("audit")
_WORD = r"^[^\x00]*$"
_Words = Annotated[list[Annotated[str, StringConstraints(max_length=255, pattern=_WORD)]] | None, Query(max_length=100)]


@router.serves(
    "GET /api/v2/audit",
    "Read the audit log",
    media={"text/csv": "id,time,actor,action,target,owner,via,address,status,detail\r\n"},
    headers=CSV_HEADERS,
)
async def list_audit_entries(
    request: Request,
    caller: Annotated[Caller, needs("audit.own")],
    actor: _Words = None,
    action: _Words = None,
    target: Annotated[str, Query(max_length=512, pattern=_WORD, description="exactly this target")] = "",
    concerning: Annotated[
        str, Query(max_length=255, pattern=_WORD, description="by this user, or about what belongs to them")
    ] = "",
    from_: Annotated[str | None, Query(alias="from", max_length=15, description="ms or YYYY-MM-DD in UTC")] = None,
    to: Annotated[str | None, Query(max_length=15, description="ms or YYYY-MM-DD in UTC, not included")] = None,
    before: Annotated[int | None, Query(ge=0, le=2**63 - 1, description="`next` of the previous page")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    format_: Annotated[Literal["json", "csv"] | None, Query(alias="format", description="or by Accept")] = None,
) -> Reply[AuditPage] | Response:
    """Return entries, newest first: all for administrators, for others those by them or about what belongs to them."""
    sees_all = refusal(caller.principal, "audit.read", NOTHING) is None
    if not sees_all and concerning not in ("", caller.user):
        caller.check(NOTHING, "audit.read")
    from_ms = moment(from_, "from", 0) if from_ else None
    where = AuditFilter(
        actors=tuple(actor or ()),
        actions=tuple(action or ()),
        target=target,
        concerning=concerning if sees_all else caller.user,
        # Entries older than their account are about an earlier user of the same name.
        from_ms=from_ms if sees_all else max(from_ms or 0, caller.principal.since_ms),
        to_ms=moment(to, "to", 0) if to else None,
        before_id=before,
        limit=limit,
    )
    rows = await context_of(request).services.usage.audit(where)
    entries = [shapes.entry(row, is_shown_whole=sees_all or row.entry.actor == caller.user) for row in rows]
    following = rows[-1].id if len(rows) == limit else None
    if wants_csv(format_, request.headers.get("accept")):
        headers = {"Content-Disposition": 'attachment; filename="audit.csv"'}
        return text(shapes.entries_csv(entries), CSV, headers)
    return reply(AuditPage(entries=entries, next=following))
