"""Budgets."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.client.model.reading import Answer, Document, as_real, number, real, text, value, whole


def _shares(found: object) -> tuple[float, ...]:
    return tuple(map(as_real, found)) if isinstance(found, list) else ()


@dataclass(frozen=True, slots=True)
class Budget(Answer):
    """The GPU hours that a user, a group or a virtual cluster may use in a period."""

    kind: str = text("kind")
    """user, group or vc."""
    name: str = text("name")
    period: str = text("period")
    """month, quarter or total."""
    gpu_hours: float = real("gpuHours")
    warn_at: tuple[float, ...] = value("warnAt", convert=_shares)
    """Shares of the hours at which a warning is sent."""
    stops: str = text("stops")
    """none, opportunistic or all: the accepted jobs that are stopped once it is used up."""
    notice_minutes: float = real("noticeMinutes")
    contact: str = text("contact")
    gpu_hours_used: float = real("gpuHoursUsed")
    renews_at_ms: int | None = number("renewsAt")
    used_up_at_ms: int | None = number("usedUpAt")
    document: Document = whole()
