"""The code that users send along with their jobs, kept as long as a job refers to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class CodeOwner:
    """A user; `since_ms` distinguishes them from an earlier one of the same name."""

    user: str
    since_ms: int = 0


@dataclass(frozen=True, slots=True)
class CodeKept:
    """A code that is complete on the server."""

    digest: str
    files: int
    bytes: int


class CodeStore(Protocol):
    """Keeps the files of code, each content once for a user, and packs of them for tasks."""

    async def missing(self, owner: CodeOwner, hashes: Sequence[str]) -> list[str]:
        """Return which of these contents have to be sent; the others stay long enough to be used."""

    async def add(self, owner: CodeOwner, digest: str, content: AsyncIterator[bytes]) -> CodeKept:
        """Store a code: its list, and the contents that are missing, as `client.code` writes them.

        Raise InvalidParameters for what does not fit together, and Refused beyond a limit.
        """

    async def hold(self, owner: CodeOwner, digest: str, job: str) -> None:
        """Keep a code for a job that is about to be stored. Raise Refused NoCodeError if it is not there."""

    def pack(self, digest: str) -> str:
        """Return the path of the packed code of a job. Raise Refused NoCodeError if it is no longer kept."""

    async def expire(self) -> int:
        """Remove what no job needs any more; return the number of codes."""
