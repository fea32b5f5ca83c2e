"""Entries of the audit log as documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from openpai.api.answers import csv_of
from openpai.ports.usage import AuditRow
from openpai.wire.audit import AuditEntry

_HEADS: Final = ("id", "time", "actor", "action", "target", "owner", "via", "address", "status", "detail")


def entry(row: AuditRow, *, is_shown_whole: bool) -> AuditEntry:
    """Return an entry; only administrators see the address and the token of another user."""
    of = row.entry
    return {
        "id": row.id,
        "time": of.at_ms,
        "actor": of.actor,
        "action": of.action,
        "target": of.target,
        "owner": of.owner,
        "via": of.via if is_shown_whole else "",
        "address": of.address if is_shown_whole else "",
        "status": of.status,
        "detail": dict(of.detail),
    }


def entries_csv(entries: Sequence[AuditEntry]) -> str:
    """Return entries as CSV, with times in UTC."""
    rows = []
    for each in entries:
        at = datetime.fromtimestamp(each["time"] / 1000, UTC).isoformat(timespec="milliseconds")
        detail = json.dumps(each["detail"], ensure_ascii=False, separators=(",", ":"))
        written: dict[str, Any] = {**each, "time": at, "detail": detail}
        rows.append([written[head] for head in _HEADS])
    return csv_of(_HEADS, rows)
