"""What entrances may ask the platform to do. Each wish is a promise kept once it is answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from openpai.scheduler.model import Wait


@dataclass(frozen=True, slots=True)
class Submitted:
    """A submission that is durable: the job will run or say why not."""

    job: str
    user: str
    name: str
    warnings: tuple[str, ...] = ()
    """What was understood but will not have the effect its author may expect."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A machine and how much of it is in use."""

    name: str
    address: str
    is_healthy: bool
    told: str
    gpu_model: str
    cpus_total: int
    cpus_used: int
    memory_mb_total: int
    memory_mb_used: int
    gpus_total: int
    gpus_used: int
    bad_devices: tuple[int, ...]
    tasks: int
    """How many task attempts hold something there."""


class Platform(Protocol):
    """The wishes, one function each. Jobs are named by their owner and name; unknown ones raise NoJobError."""

    async def submit(self, user: str, text: bytes) -> Submitted:
        """Check a job file, remember the job, and answer once that is durable.

        Raises InvalidProtocol with every fault, Refused ConflictJobError for a name the user already used,
        Refused InvalidProtocolError for a job that could not run even if everything were free.
        """
        ...

    async def stop(self, user: str, name: str, by: str) -> None:
        """Let the job end. Harmless when it is over or already stopping."""
        ...

    async def start(self, user: str, name: str, by: str) -> None:
        """Let a finished job run again as a new attempt; takes back a stop that has not been carried out yet."""
        ...

    async def why(self, user: str, name: str) -> tuple[Wait, ...]:
        """Return why the job's tasks wait; empty when nothing of it waits."""
        ...

    async def nodes(self) -> tuple[NodeView, ...]:
        """Return every machine, by name."""
        ...
