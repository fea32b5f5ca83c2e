"""The exit-code table: what each way of ending means, who caused it, and what to do about it.

Every page, answer and retry decision about a failure uses a row of this table. Codes and phrases are OpenPAI's, so that
existing scripts keep working; the sentences are our own and apply to every backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from openpai.protocol.exit_code_rows import ROWS, Row
from openpai.protocol.log_rules import LOG_RULES, LogRule

__all__ = ["EXIT_SPECS", "LOG_RULES", "UNLISTED_NEGATIVE", "UNLISTED_POSITIVE", "ExitSpec", "LogRule", "spec_for"]

UNLISTED_POSITIVE: Final = 256
UNLISTED_NEGATIVE: Final = -8000

_REACTION_OF: Final = {
    "TRANSIENT": "ALWAYS_RETRY",
    "TRANSIENT_CONFLICT": "ALWAYS_BACKOFF_RETRY",
    "PERMANENT": "NEVER_RETRY",
    "UNKNOWN": "RETRY_TO_MAX",
}


@dataclass(frozen=True, slots=True)
class ExitSpec:
    """One row of the table."""

    code: int
    phrase: str
    issuer: str
    """Reports the end: USER_CONTAINER, PAI_RUNTIME, PAI_FC, PAI_K8S, PAI_DOCKER, PAI_OS, ..."""
    causer: str
    """Caused the end: the same words, or PAI_HW, USER_STOP, USER_SUBMISSION, UNKNOWN, ..."""
    type: str
    """USER_SUCCESS, USER_STOP, USER_FAILURE, PLATFORM_FAILURE, RESOURCE_ALLOCATION_TIMEOUT or UNKNOWN_FAILURE."""
    stage: str
    """SUBMISSION, ALLOCATION, LAUNCHING, RUNNING, COMPLETING or UNKNOWN."""
    behavior: str
    """TRANSIENT, TRANSIENT_CONFLICT, PERMANENT or UNKNOWN: what it means for retries."""
    reaction: str
    """ALWAYS_RETRY, ALWAYS_BACKOFF_RETRY, NEVER_RETRY or RETRY_TO_MAX."""
    reason: str
    repro: tuple[str, ...] = ()
    solution: tuple[str, ...] = ()


def spec_for(code: int) -> ExitSpec:
    """Return the row of a code; an unlisted code gets the row for unlisted codes, with its own number."""
    spec = EXIT_SPECS.get(code)
    if spec is not None:
        return spec
    return replace(EXIT_SPECS[UNLISTED_POSITIVE if code > 0 else UNLISTED_NEGATIVE], code=code)


def _spec(row: Row) -> ExitSpec:
    issuer, causer = row.parties.split("/")
    reaction = "NEVER_RETRY" if row.code == 0 else _REACTION_OF[row.behavior]
    about = (row.type, row.stage, row.behavior, reaction)
    return ExitSpec(row.code, row.phrase, issuer, causer, *about, row.reason, (row.repro,), row.solution)


EXIT_SPECS: Final[Mapping[int, ExitSpec]] = MappingProxyType({row.code: _spec(row) for row in ROWS})
