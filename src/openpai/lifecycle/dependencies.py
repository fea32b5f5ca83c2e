"""Whether a job that waits for others may be queued, has to wait on, or waits in vain, as one table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from openpai.lifecycle.model import JOB_FINAL, JobPhase
from openpai.protocol.dependencies import Dependency, Until


class Met(StrEnum):
    """What the end of a job means for one that waits for it."""

    YES = "yes"
    NOT_YET = "not yet"
    NEVER = "never"


_S, _F, _T = JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.STOPPED
MEETS: Final[Mapping[tuple[Until, JobPhase], Met]] = {
    (Until.SUCCEEDED, _S): Met.YES,
    (Until.SUCCEEDED, _F): Met.NEVER,
    (Until.SUCCEEDED, _T): Met.NEVER,
    (Until.FAILED, _S): Met.NEVER,
    (Until.FAILED, _F): Met.YES,
    (Until.FAILED, _T): Met.NEVER,
    (Until.ENDED, _S): Met.YES,
    (Until.ENDED, _F): Met.YES,
    (Until.ENDED, _T): Met.YES,
}
_TO: Final = {Until.SUCCEEDED: "succeed", Until.FAILED: "fail", Until.ENDED: "end"}
_DID: Final = {_S: "succeeded", _F: "failed", _T: "was stopped"}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a job may do: be queued if neither list has an entry, wait, or end because it waits in vain."""

    waits_for: tuple[str, ...] = ()
    in_vain: tuple[str, ...] = ()

    @property
    def is_released(self) -> bool:
        """Return whether the job may be queued."""
        return not self.waits_for and not self.in_vain


def met(wanted: Dependency, phase: JobPhase | None) -> Met:
    """Return what the phase of a job means for one that waits for it; None is a job that was deleted.

    Only a job that is over can be deleted, so it has ended; how, no table remembers.
    """
    if phase is None:
        return Met.YES if wanted.until is Until.ENDED else Met.NEVER
    return MEETS[wanted.until, phase] if phase in JOB_FINAL else Met.NOT_YET


def judge(after: Iterable[Dependency], phases: Mapping[str, JobPhase]) -> Judgement:
    """Return what a job may do that waits for others, whose phases are given by id."""
    waits, in_vain = [], []
    for wanted in after:
        phase = phases.get(wanted.id)
        match met(wanted, phase):
            case Met.NOT_YET:
                waits.append(f"waits for job {wanted.full_name} to {_TO[wanted.until]}")
            case Met.NEVER:
                in_vain.append(never(wanted, phase))
            case Met.YES:
                pass
    return Judgement(tuple(waits), tuple(in_vain))


def never(wanted: Dependency, phase: JobPhase | None) -> str:
    """Return why a job waits in vain for another one."""
    did = "was deleted" if phase is None else _DID[phase]
    return f"job {wanted.full_name} {did}, and this job waits for it to {_TO[wanted.until]}"
