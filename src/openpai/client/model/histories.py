"""What happened to a job, and why it waits."""

from __future__ import annotations

from dataclasses import dataclass, field

from openpai.client.model.reading import Document, moment, number, text
from openpai.client.model.sharing import Estimate


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a job's history."""

    type: str
    reason: str
    message: str
    at_ms: int | None
    task: str
    node: str
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> Event:
        """Return one event of the server's list."""
        return cls(
            type=text(document.get("type")),
            reason=text(document.get("reason")),
            message=text(document.get("message")),
            at_ms=moment(document.get("lastTimestamp")),
            task=text(document.get("taskName")),
            node=text(document.get("sourceHost")),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class Wait:
    """Why something of a job waits, in words of whoever decided it."""

    code: str
    message: str
    unblock: str
    ahead: tuple[str, ...]
    position: int | None
    estimate: Estimate | None
    more: int
    """How many further tasks of the job wait for the same, behind this one."""
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> Wait:
        """Return one reason for waiting."""
        ahead = document.get("ahead") or ()
        return cls(
            code=text(document.get("code")),
            message=text(document.get("message")),
            unblock=text(document.get("unblock")),
            ahead=(ahead,) if isinstance(ahead, str) else tuple(str(job) for job in ahead),
            position=number(document.get("position")),
            estimate=Estimate.read(document.get("estimate")),
            more=number(document.get("more")) or 0,
            document=document,
        )
