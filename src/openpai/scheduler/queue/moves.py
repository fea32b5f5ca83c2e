"""The record of gangs that were moved: where they go, how many may move, and what the moves cost.

A gang may be moved once it has run for half an hour, and each time its job starts again it must run for twice as long
before that. So a job of any length is moved only a few times, also if it never saves its work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from openpai.scheduler.model import Gang

MOVED_AFTER_MS: Final = 30 * 60 * 1000
"""How long a gang must have run before it is moved, if its job started for the first time."""

DOUBLINGS_MAX: Final = 20

MOVES_AN_HOUR: Final = 10
"""How many gangs of a virtual cluster may be moved within an hour."""

HOUR_MS: Final = 60 * 60 * 1000


@dataclass(slots=True)
class Move:
    """A gang that leaves its cells for another, and for which other cells are reserved."""

    gang: str
    virtual_cluster: str
    user: str
    gpus: int
    kept: str
    """The name in the core of what is reserved for it."""
    room_for: str
    """The gang that gets its cells."""
    room_for_job: str
    left_ms: int | None = None
    """When it had left its cells; None before."""
    lost_ms: int = 0
    """How much of its last running time is not saved and must be done again."""


@dataclass(slots=True)
class MovedWork:
    """The cost of the moves of a virtual cluster."""

    moves: int = 0
    lost_ms: int = 0
    """Device time of work that was not saved when the gangs were asked to leave."""
    lost_gpu_ms: int = 0
    """The same in GPU time."""


@dataclass(slots=True)
class MoveBook:
    """The moves that are under way, and the counts of those that were made."""

    allowed: frozenset[str] = frozenset()
    """The virtual clusters whose interruptible gangs may be moved."""
    open: dict[str, Move] = field(default_factory=dict)
    """By job."""
    work: dict[str, MovedWork] = field(default_factory=dict)
    """By virtual cluster."""
    _made_ms: dict[str, list[int]] = field(default_factory=dict)

    def move_of(self, gang: str) -> Move | None:
        """Return the move of a gang that was asked to leave, or None."""
        return next((move for move in self.open.values() if move.gang == gang), None)

    def left(self, virtual_cluster: str, now_ms: int) -> int:
        """Return how many gangs of a virtual cluster may be moved now."""
        recent = [at_ms for at_ms in self._made_ms.get(virtual_cluster, ()) if 0 <= now_ms - at_ms < HOUR_MS]
        self._made_ms[virtual_cluster] = recent
        return MOVES_AN_HOUR - len(recent)

    def begin(self, job: str, move: Move, lost_ms: int, now_ms: int) -> None:
        """Record that a gang was asked to leave."""
        self.open[job] = move
        self._made_ms.setdefault(move.virtual_cluster, []).append(now_ms)
        work = self.work.setdefault(move.virtual_cluster, MovedWork())
        work.moves += 1
        work.lost_ms += lost_ms
        work.lost_gpu_ms += move.gpus * move.lost_ms

    def dump(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "allowed": sorted(self.allowed),
            "open": {job: asdict(move) for job, move in self.open.items()},
            "work": {name: asdict(work) for name, work in self.work.items()},
            "made_ms": {name: list(made) for name, made in self._made_ms.items()},
        }

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> MoveBook:
        """Return the value that was dumped."""
        return cls(
            frozenset(data.get("allowed", ())),
            {job: Move(**row) for job, row in data.get("open", {}).items()},
            {name: MovedWork(**row) for name, row in data.get("work", {}).items()},
            {name: list(made) for name, made in data.get("made_ms", {}).items()},
        )


def job_key(gang: Gang) -> str:
    """Return what a gang has in common with the next attempt of its job."""
    return gang.job or gang.id


def must_run_ms(gang: Gang) -> int:
    """Return how long a gang must have run before it may be moved."""
    return MOVED_AFTER_MS << min(gang.attempt, DOUBLINGS_MAX)
