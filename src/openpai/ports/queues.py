"""The queues of virtual clusters: which jobs wait, and a job's place beside another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from openpai.scheduler.model import Wait


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job that waits, at its place in the queue of its virtual cluster, counted from 1."""

    place: int
    user: str
    name: str
    virtual_cluster: str
    is_private: bool
    submitted_at_ms: int
    priority_class: str | None
    priority: int
    rank: int
    tasks: int
    gpus: int
    cpus: int
    is_movable: bool
    """Whether it may be put before or after another job."""
    wait: Wait | None


@dataclass(frozen=True, slots=True)
class Beside:
    """The place directly before or after a job, `user~job`."""

    job: str
    is_before: bool


class Queues(Protocol):
    """The part of the platform's commands about queues."""

    async def queue(self, virtual_cluster: str, limit: int) -> tuple[tuple[QueuedJob, ...], int]:
        """Return the first jobs that wait in a virtual cluster, in order, and how many wait."""

    async def move_beside(self, user: str, name: str, beside: Beside, by: str) -> None:
        """Put a waiting job before or after another one of its virtual cluster and priority.

        Raises ConflictJobError where either has no place in that queue.
        """
