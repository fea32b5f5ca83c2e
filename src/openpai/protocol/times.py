"""Times as text: in documents they are numbers of milliseconds, in the forms of other systems they are written."""

from __future__ import annotations

from datetime import UTC, datetime


def iso_time(at_ms: int) -> str:
    """Return a time as in 2026-01-31T12:00:00.000Z."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def kubernetes_time(at_ms: int | None) -> str | None:
    """Return a time as Kubernetes writes it, as in 2026-01-31T12:00:00Z."""
    return None if at_ms is None else datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
