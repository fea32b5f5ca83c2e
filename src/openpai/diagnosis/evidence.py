"""What is known of the tasks of an attempt that failed, and what is found in it."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.diagnosis.last_error import LastError
from openpai.diagnosis.rules import Cause, Rule


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one task left."""

    exit_code: int | None
    """None for a task that the platform ended, since its attempt was over: its code says nothing about a failure."""
    log: str = ""
    """The end of its log: the standard output, then the standard error."""
    message: str = ""
    """What the backend says about the end."""
    is_explained: bool = False
    """Whether the backend saw itself what ended the task, such as a lost node."""
    ended_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """What one task shows about a failure."""

    rule: Rule | None
    """The observation that decides; None where none is known."""
    line: str
    """The line that shows it, or else the line that says most."""
    error: LastError | None = None
    seconds: float | None = None
    """The time of day at which the line was written, if the log says it."""
    context: tuple[str, ...] = ()
    """The line with those around it in the log."""
    unread: int = 0
    """How many lines of the end of the log were not searched, because the time for it was over."""

    @property
    def cause(self) -> Cause | None:
        """Return the cause that was observed."""
        return self.rule.cause if self.rule else None
