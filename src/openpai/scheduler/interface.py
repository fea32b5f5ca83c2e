"""The scheduler's entrance, kept stable so that the room behind it can be refurnished.

It keeps its state in memory, changes it only when told a fact, and can be rebuilt by telling it again. It is
deterministic: the same history gives the same answers. A decision is a proposal: what it promises is set aside
until the caller commits or rejects it, and nothing else in the world has changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from openpai.scheduler.model import Decision, Gang, Node, Spot, Wait


class Scheduler(Protocol):
    """Decides which gang runs where, and says why the others wait."""

    def set_node(self, node: Node) -> None:
        """Learn of a node, or that it changed. Gangs that run on it keep their spots."""
        ...

    def remove_node(self, name: str) -> None:
        """Learn that a node is gone for good. Gangs that run on it keep their spots until released."""
        ...

    def refusal(self, gang: Gang) -> str | None:
        """Return why `gang` could not run even if everything were free, or None. Changes nothing."""
        ...

    def add(self, gang: Gang) -> None:
        """Let a gang wait. Adding one that waits or runs changes nothing."""
        ...

    def restore(self, gang: Gang, spots: Iterable[Spot | None]) -> None:
        """Learn that a gang already runs there, as after a restart; None for members that are over."""
        ...

    def decide(self, now_ms: int, limit: int) -> tuple[Decision, ...]:
        """Return at most `limit` decisions, best right first. Each is set aside until committed or rejected."""
        ...

    def commit(self, gang: str) -> None:
        """The placement proposed for `gang` became a fact."""
        ...

    def reject(self, gang: str) -> None:
        """The placement proposed for `gang` did not become a fact: it waits again, where it was in the queue."""
        ...

    def release(self, gang: str, members: Iterable[int] | None = None) -> None:
        """These members (all when None) hold their spots no longer. A gang without spots is forgotten."""
        ...

    def cancel(self, gang: str) -> None:
        """A waiting gang wants nothing any more. Unknown gangs are ignored."""
        ...

    def why(self, gang: str) -> Wait | None:
        """Return why a gang waits; None when it does not."""
        ...
