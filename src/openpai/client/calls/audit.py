"""The audit log: who did what."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final, TypedDict, Unpack

from openpai.client import model
from openpai.client.calls.naming import OverWire
from openpai.client.calls_core import Call, asks, iterates, known, query_of, whole

AUDIT_PAGE: Final = 500


class AuditFilters(TypedDict, total=False):
    """Filters of the audit log."""

    actor: str
    action: str
    target: str
    concerning: str
    from_: str | int | None
    to: str | int | None


class Audit(OverWire):
    """Reads the audit log."""

    @asks
    def audit(
        self,
        *,
        before: int | None = None,
        limit: int = 100,
        **where: Unpack[AuditFilters],
    ) -> Call[model.AuditPage]:
        """Return entries of the audit log, newest first. `where` takes the filters of `AuditFilters`."""
        return _audit(where, before, limit)

    @iterates
    async def all_audit(
        self, /, *, page: int = AUDIT_PAGE, **where: Unpack[AuditFilters]
    ) -> AsyncGenerator[model.AuditEntry, None]:
        """Yield every entry of the audit log that matches, newest first, reading `page` of them at a time."""
        before: int | None = None
        is_more = True
        while is_more:
            found = await self.wire.ask(_audit(where, before, page))
            for entry in found.entries:
                yield entry
            before, is_more = found.next, found.next is not None


def _audit(where: AuditFilters, before: int | None, limit: int) -> Call[model.AuditPage]:
    known(where, AuditFilters, "the audit log")
    filters = {name.rstrip("_"): value for name, value in where.items()}
    return Call("GET", "/audit", whole(model.AuditPage.read), query_of(**filters, before=before, limit=limit))
