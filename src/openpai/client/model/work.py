"""What tasks left in their working directories."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.client.model.reading import Document


@dataclass(frozen=True, slots=True)
class WorkKept:
    """The files that one task attempt left, kept until `kept_until_ms`."""

    role: str
    index: int
    job_attempt: int
    attempt: int
    files: int
    bytes: int
    is_counted: bool
    kept_until_ms: int

    @property
    def task(self) -> str:
        """Return the task as people name it."""
        return f"{self.role}-{self.index}"

    @classmethod
    def read(cls, document: Document) -> WorkKept:
        """Return what the server tells."""
        return cls(
            str(document["taskRoleName"]),
            int(document["taskIndex"]),
            int(document["jobAttemptId"]),
            int(document["attemptId"]),
            int(document["files"]),
            int(document["bytes"]),
            bool(document["isCounted"]),
            int(document["keptUntil"]),
        )
