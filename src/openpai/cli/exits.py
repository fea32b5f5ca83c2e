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
    Exit.REFUSED: "wrong usage or wrong input: trying again will not help",
    Exit.NOT_FOUND: "no such job, task, log, node or user",
    Exit.NOT_ALLOWED: "not logged in, wrong password, or not allowed",
    Exit.CONFLICT: "the name is taken, or the object is in use or still running",
    Exit.UNAVAILABLE: "no connection, server busy, or timeout: try again later",
    Exit.JOB_OVER: "the job has ended or is archived, and the command needs a running one",
    Exit.BUG: "a bug in openpai",
    Exit.INTERRUPTED: "interrupted with Ctrl-C; jobs keep running",
}


def exit_for(error: PaiError) -> Exit:
    """Return the exit code for an error, by its family and code."""
    if isinstance(error, Unavailable):
        return Exit.UNAVAILABLE
    if not isinstance(error, Refused):
        return Exit.BUG
    # The archive holds only jobs that have ended; more rights would not change that.
    if error.code in ("FinishedJobError", "NoRunningTaskError", "ReadOnlyJobError"):
        return Exit.JOB_OVER
    if error.code == "IncorrectPasswordError" or error.status in (401, 403):
        return Exit.NOT_ALLOWED
    return {404: Exit.NOT_FOUND, 409: Exit.CONFLICT}.get(error.status, Exit.REFUSED)


def exit_table() -> str:
    """Return the table as lines of text."""
    return "\n".join(f"{code.value:>5}  {meaning}" for code, meaning in MEANING.items())
