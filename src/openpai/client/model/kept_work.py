"""Files that tasks left in their working directories."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.client.model.reading import Answer, needed


@dataclass(frozen=True, slots=True)
class WorkKept(Answer):
    """The files that one task attempt left, kept until `kept_until_ms`."""

    role: str = needed("taskRoleName", str)
    index: int = needed("taskIndex", int)
    job_attempt: int = needed("jobAttemptId", int)
    attempt: int = needed("attemptId", int)
    files: int = needed("files", int)
    bytes: int = needed("bytes", int)
    is_counted: bool = needed("isCounted", bool)
    kept_until_ms: int = needed("keptUntil", int)

    @property
    def task(self) -> str:
        """Return `role-index`."""
        return f"{self.role}-{self.index}"
