"""The audit log: who did what."""

from __future__ import annotations

from typing import Final, TypedDict, Unpack

from openpai.client import model
from openpai.client.calls_core import Call, Pages, asks, known, pages, said, whole

AUDIT_PAGE: Final = 500


class AuditFilters(TypedDict, total=False):
    """Filters of the audit log."""

    actor: str
    action: str
    target: str
    concerning: str
    from_: str | int | None
    to: str | int | None


class Audit:
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

    @pages
    def all_audit(
        self, /, *, page: int = AUDIT_PAGE, **where: Unpack[AuditFilters]
    ) -> Pages[model.AuditPage, model.AuditEntry]:
        """Yield every entry of the audit log that matches, newest first, reading `page` of them at a time."""

        def after(found: model.AuditPage) -> Call[model.AuditPage] | None:
            return None if found.next is None else _audit(where, found.next, page)

        return Pages(_audit(where, None, page), lambda found: found.entries, after)


def _audit(where: AuditFilters, before: int | None, limit: int) -> Call[model.AuditPage]:
    known(where, AuditFilters, "the audit log")
    asked = {name.rstrip("_"): value for name, value in where.items()}
    return Call("GET", "/audit", whole(model.AuditPage.read), said(**asked, before=before, limit=limit))
