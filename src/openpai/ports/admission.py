"""The interface of what admits jobs in place of the platform's own queue, such as a queue of Kueue."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class TasksAsked:
    """The tasks of one role, and what each of them needs."""

    role: str
    count: int
    cpus: int
    memory_mb: int
    gpus: int


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """A job that is to be admitted as a whole."""

    job: str
    name: str
    """`user~job`, for people."""
    queue: str
    priority: int
    tasks: tuple[TasksAsked, ...]


class AdmissionState(StrEnum):
    """What is known of the admission of a job."""

    UNKNOWN = "unknown"
    """The cluster has not been asked yet, or does not answer."""
    GONE = "gone"
    """The cluster knows nothing of the job (any more)."""
    WAITING = "waiting"
    ADMITTED = "admitted"
    EVICTED = "evicted"
    """It was admitted, and has to leave."""


class Admission(NamedTuple):
    """The admission of a job, with why it waits or has to leave."""

    state: AdmissionState
    message: str = ""


@runtime_checkable
class AdmitsJobs(Protocol):
    """A backend whose cluster has queues that admit jobs."""

    def request_admission(self, asked: AdmissionRequest) -> None:
        """Begin to ask for a job that holds nothing. Repeating it is harmless; one that was evicted asks again."""
        ...

    def change_admission(self, asked: AdmissionRequest) -> None:
        """Begin to bring what was asked for up to date, of a job that may hold what it was granted.

        Another priority leaves its admission as it is. Repeating it is harmless.
        """
        ...

    def withdraw_admission(self, job: str) -> None:
        """Begin to give back what was granted to a job that is over. Repeating it is harmless."""
        ...

    def admission(self, job: str) -> Admission:
        """Return what is known of a job's admission."""
        ...

    async def admission_news(self) -> Collection[str]:
        """Wait for changes since the last call; return the ids of the jobs. The first call returns all it knows."""
        ...
