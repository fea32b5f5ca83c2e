"""The jobs that a job waits for: `extras.after`, as it is written and as a submission completes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from openpai.protocol.admission import queue_of
from openpai.protocol.job import JobSpec, owner_and_job
from openpai.protocol.references import entries


class Until(StrEnum):
    """How a job has to end before another one is queued."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Dependency:
    """A job that another one waits for. A submission finds its `id`, since names are used again."""

    user: str
    name: str
    until: Until = Until.SUCCEEDED
    id: str = ""

    @property
    def full_name(self) -> str:
        """Return `user~name`."""
        return f"{self.user}~{self.name}"

    def as_entry(self) -> dict[str, str]:
        """Return it as an entry of `extras.after`."""
        return {"job": self.full_name, "until": self.until.value, "id": self.id}


def is_held(extras: Mapping[str, Any]) -> bool:
    """Return whether a job waits for something else before it is queued."""
    sweep = extras.get("sweep")
    is_limited = isinstance(sweep, Mapping) and bool(sweep.get("maxRunning"))
    return is_limited or bool(queue_of(extras)) or bool(entries(extras.get("after")))


def dependencies_of(spec: JobSpec, user: str) -> tuple[Dependency, ...]:
    """Return the jobs that a job of a user waits for, in the order of the file."""
    return tuple(_dependency(entry, user) for entry in entries(spec.extras.get("after")))


def _dependency(entry: Any, user: str) -> Dependency:
    about = entry if isinstance(entry, Mapping) else {"job": str(entry)}
    until = Until(about.get("until") or Until.SUCCEEDED)
    return Dependency(*owner_and_job(str(about.get("job", "")), user), until, str(about.get("id") or ""))
