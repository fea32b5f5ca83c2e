"""Commands about jobs that the store alone carries out, on any server: tags, the archive, deletion."""

from __future__ import annotations

from typing import Final

from openpai.ports.logs import LogReader
from openpai.ports.queries import JobQueries, JobRow
from openpai.protocol.errors import InvalidParameters, Refused
from openpai.protocol.sweeps import is_reserved

TAGS_MAX: Final = 64
"""How many tags a job may have: the list of jobs contains every tag of each job."""


async def tag(jobs: JobQueries, row: JobRow, word: str) -> None:
    """Put a tag on a job; raise InvalidParameters if it is the platform's own, or if the job has too many."""
    _refuse_reserved(word)
    if word not in row.tags and len(row.tags) >= TAGS_MAX:
        message = f"job {row.full_name} has {len(row.tags)} tags, and no job may have more than {TAGS_MAX}"
        raise InvalidParameters(message, "take one off first: `pai job untag`")
    await jobs.set_tag(row.id, word)


async def untag(jobs: JobQueries, row: JobRow, word: str) -> None:
    """Remove a tag from a job; raise Refused NoTagError, or InvalidParameters if it is the platform's own."""
    _refuse_reserved(word)
    if not await jobs.remove_tag(row.id, word):
        raise Refused("NoTagError", f"job {row.full_name} has no tag {word!r}")


async def archive(jobs: JobQueries, row: JobRow, now_ms: int) -> None:
    """Archive a job, so that its name is free; raise Refused ConflictJobError if it has not finished."""
    if not await jobs.archive(row.id, now_ms):
        raise _unfinished(row)


async def delete(jobs: JobQueries, logs: LogReader, row: JobRow, now_ms: int) -> None:
    """Delete a job with its logs; raise Refused ConflictJobError if it has not finished."""
    # An archived job cannot start while its logs are removed, and an interrupted deletion can be repeated.
    await archive(jobs, row, now_ms)
    await logs.remove(await jobs.attempt_keys(row.id))
    if not await jobs.delete(row.id):
        raise _unfinished(row)


def _refuse_reserved(word: str) -> None:
    if is_reserved(word):
        raise InvalidParameters(f"the tag {word!r} is one that only the platform gives", "choose another tag")


def _unfinished(row: JobRow) -> Refused:
    return Refused("ConflictJobError", f"job {row.full_name} has not finished", "stop it first, or wait until it ends")
