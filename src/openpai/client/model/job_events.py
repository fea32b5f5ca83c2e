"""Events of a job, and reasons for waiting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openpai.client.model.reading import (
    Answer,
    Document,
    amount,
    as_moment,
    as_texts,
    number,
    part_if_any,
    text,
    value,
    whole,
)


def _names(found: Any) -> tuple[str, ...]:
    # Older servers name one job.
    return (found,) if isinstance(found, str) else as_texts(found)


@dataclass(frozen=True, slots=True)
class Event(Answer):
    """One event of a job."""

    type: str = text("type")
    reason: str = text("reason")
    message: str = text("message")
    at_ms: int | None = value("lastTimestamp", convert=as_moment)
    task: str = text("taskName")
    node: str = text("sourceHost")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class Estimate(Answer):
    """When a job may start: between these times (None if unknown), and the basis of the estimate."""

    earliest_ms: int | None = number("earliestTime")
    latest_ms: int | None = number("latestTime")
    basis: str = text("basis")


@dataclass(frozen=True, slots=True)
class Wait(Answer):
    """One reason why a job waits, from the scheduler or a quota."""

    code: str = text("code")
    message: str = text("message")
    unblock: str = text("unblock")
    ahead: tuple[str, ...] = value("ahead", convert=_names)
    position: int | None = number("position")
    estimate: Estimate | None = part_if_any(Estimate, "estimate")
    more: int = amount("more")
    """How many more tasks of the job wait for the same reason, after this one."""
    document: Document = whole()
