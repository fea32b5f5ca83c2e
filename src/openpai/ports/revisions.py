"""What the platform comes with and administrators edit while it runs, such as exit specs and alert rules.

Each kind has names. A name's content is the bundled one, or that of the last edit; each edit is a numbered revision.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

Content = TypeVar("Content")


class Origin(StrEnum):
    """Where the content comes from."""

    BUNDLED = "bundled"
    CHANGED = "changed"
    """A bundled one that an administrator changed."""
    DISABLED = "disabled"
    ADDED = "added"


@dataclass(frozen=True, slots=True)
class Edit(Generic[Content]):
    """The new content of a name."""

    content: Content | None
    """None reverts it to the bundled one, or removes one that was added."""
    reason: str = ""
    revision: int | None = None
    """The revision of the name, or the newest of all, that the edit started from; None for any."""
    is_forced: bool = False
    """Whether the edit is made although the kind's own check found a conflict with other names."""


@dataclass(frozen=True, slots=True)
class Revision(Generic[Content]):
    """One change that was made."""

    revision: int
    name: str
    at_ms: int
    by: str
    action: str
    """changed, added, disabled or reverted."""
    reason: str
    content: Content | None
    """As it was afterwards; None: as bundled, or none."""


@dataclass(frozen=True, slots=True)
class Revised(Generic[Content]):
    """A name with its content."""

    name: str
    origin: Origin
    content: Content
    bundled: Content | None = None
    """The bundled one, if there is one."""
    changed_by: str = ""
    changed_at_ms: int | None = None
    is_outdated: bool = False
    """Whether the bundled one is not the one that the administrator changed: the platform was upgraded since."""
    revision: int = 0
    """The revision of its last change; 0 if it was never changed."""
    problem: str = ""
    """Why this version of the platform cannot use the edit; empty if it can."""
