"""What happened to a job, and why it waits."""

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
    """One line of a job's history."""

    type: str = text("type")
    reason: str = text("reason")
    message: str = text("message")
    at_ms: int | None = value("lastTimestamp", convert=as_moment)
    task: str = text("taskName")
    node: str = text("sourceHost")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class Estimate(Answer):
    """When something may start: between these times, None where that is unknown, and what the guess rests on."""

    earliest_ms: int | None = number("earliestTime")
    latest_ms: int | None = number("latestTime")
    basis: str = text("basis")


@dataclass(frozen=True, slots=True)
class Wait(Answer):
    """Why a gang of a job waits, in the words of the scheduler or the quota that decided it."""

    code: str = text("code")
    message: str = text("message")
    unblock: str = text("unblock")
    ahead: tuple[str, ...] = value("ahead", convert=_names)
    position: int | None = number("position")
    estimate: Estimate | None = part_if_any(Estimate, "estimate")
    more: int = amount("more")
    """How many further tasks of the job wait for the same, behind this one."""
    document: Document = whole()
