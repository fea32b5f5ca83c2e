"""What tasks left in their working directories, kept for a while after their end so that people can fetch it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from openpai.lifecycle.model import AttemptKey


@dataclass(frozen=True, slots=True)
class KeptAttempt:
    """The files that one task attempt left: only ordinary files count and are given out, no links."""

    key: AttemptKey
    files: int
    bytes: int
    kept_until_ms: int
    is_counted: bool = True
    """Whether that is all: of very many files only a part is counted."""


class KeptWork(Protocol):
    """Finds what tasks left, gives it out, and removes it."""

    async def all(self) -> Mapping[AttemptKey, int]:
        """Return every attempt of which something is kept, with the time since when, oldest first."""

    async def count(self, key: AttemptKey) -> KeptAttempt | None:
        """Return what is kept of an attempt; None if nothing is."""

    async def discard(self, key: AttemptKey) -> None:
        """Remove what is kept of an attempt."""

    async def of_job(self, job: str) -> tuple[KeptAttempt, ...]:
        """Return what is kept of the attempts of a job's tasks, in their order."""

    async def archive(self, key: AttemptKey, paths: Sequence[str]) -> Iterator[bytes]:
        """Return the files at or below `paths`, or all, as a tar archive. Reading it blocks.

        Raise Refused NoFileError when nothing of that is kept.
        """

    async def archive_of(self, tasks: Mapping[str, AttemptKey], paths: Sequence[str]) -> Iterator[bytes]:
        """Return the same of several tasks, each below its name, as one compressed archive (tar.gz)."""
