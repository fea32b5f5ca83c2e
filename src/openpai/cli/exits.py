"""Exit codes that scripts can trust: one table, from which `pai --help` and the guide take them."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from openpai.protocol.errors import PaiError, Refused, Unavailable


class Exit(IntEnum):
    """What the exit code of a command says."""

    OK = 0
    JOB_FAILED = 1
    REFUSED = 2
    NOT_FOUND = 3
    NOT_ALLOWED = 4
    CONFLICT = 5
    UNAVAILABLE = 6
    JOB_OVER = 7
    BUG = 70
    INTERRUPTED = 130


MEANING: Final[dict[Exit, str]] = {
    Exit.OK: "done",
    Exit.JOB_FAILED: "the job failed or was stopped (job wait, job submit --watch)",
    Exit.REFUSED: "bad usage or bad input: asking again will not help",
    Exit.NOT_FOUND: "no such job, task, log, node or user",
    Exit.NOT_ALLOWED: "not logged in, wrong password, or not allowed",
    Exit.CONFLICT: "the name is taken, or what it is about is in use or not over yet",
    Exit.UNAVAILABLE: "no connection, busy, or not over in time: try again later",
    Exit.JOB_OVER: "the job is over, or in the archive: it must run for that",
    Exit.BUG: "a bug in openpai",
    Exit.INTERRUPTED: "interrupted with Ctrl-C; a job goes on running",
}


def exit_for(error: PaiError) -> Exit:
    """Return the exit code for an error, by its family and code."""
    if isinstance(error, Unavailable):
        return Exit.UNAVAILABLE
    if not isinstance(error, Refused):
        return Exit.BUG
    # The archive holds only jobs that are over; nobody's rights would change that.
    if error.code in ("FinishedJobError", "ReadOnlyJobError"):
        return Exit.JOB_OVER
    if error.code == "IncorrectPasswordError" or error.status in (401, 403):
        return Exit.NOT_ALLOWED
    return {404: Exit.NOT_FOUND, 409: Exit.CONFLICT}.get(error.status, Exit.REFUSED)


def exit_table() -> str:
    """Return the table as lines of text."""
    return "\n".join(f"{code.value:>5}  {meaning}" for code, meaning in MEANING.items())
