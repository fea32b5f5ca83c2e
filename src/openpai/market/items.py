"""Items of the marketplace as values: job templates, data sets and models that people publish for each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

TITLE_MAX: Final = 100
SUMMARY_MAX: Final = 300
DESCRIPTION_MAX: Final = 64 * 1024
PROTOCOL_BYTES_MAX: Final = 256 * 1024
LABELS_MAX: Final = 20
LABEL_MAX: Final = 40
SHARES_MAX: Final = 50
PATH_MAX: Final = 1024
ITEMS_OF_AUTHOR_MAX: Final = 500
REVISIONS_KEPT: Final = 50
ITEM_NAME: Final = r"^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$"


class Kind(StrEnum):
    """What an item is."""

    TEMPLATE = "template"
    """A job file that others run with their own parameters."""
    DATASET = "dataset"
    MODEL = "model"


class Visibility(StrEnum):
    """The users who see an item besides its author and administrators."""

    PUBLIC = "public"
    SHARED = "shared"
    """Members of its groups, and users of its virtual clusters."""
    PRIVATE = "private"


class Status(StrEnum):
    """Whether others see an item, where administrators approve items first."""

    APPROVED = "approved"
    PENDING = "pending"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Content:
    """What the author of an item writes; each edit makes a revision of it."""

    title: str
    summary: str = ""
    description: str = ""
    """Markdown."""
    protocol: str = ""
    """A job file: what a template runs, or how a job uses a data set or a model."""
    storage: str = ""
    """The storage that has a data set or a model."""
    path: str = ""
    """Its path in the storage."""
    address: str = ""
    """Its URL, if it is in no storage."""
    categories: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    visibility: Visibility = Visibility.PUBLIC
    groups: tuple[str, ...] = ()
    virtual_clusters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """An item with the revision of its content that others see."""

    id: str
    name: str
    kind: Kind
    author: str
    made_at_ms: int
    content: Content
    """In lists without the description and the job file."""
    revision: int = 1
    newest: int = 1
    """The newest revision; a higher one than `revision` waits for approval."""
    status: Status = Status.APPROVED
    reason: str = ""
    """Why an administrator rejected it, or its newest revision."""
    is_official: bool = False
    """Whether only administrators change it."""
    changed_at_ms: int = 0
    changed_by: str = ""
    stars: int = 0
    is_starred: bool = False
    """Whether the reader gave it a star."""
    uses: int = 0
    """Jobs that were submitted from it."""
    users: int = 0
    """Users who submitted them."""


@dataclass(frozen=True, slots=True)
class Revision:
    """One revision of an item's content."""

    revision: int
    at_ms: int
    by: str
    comment: str
    content: Content


@dataclass(frozen=True, slots=True)
class Reader:
    """A user who looks at the marketplace, with what decides which items they see."""

    user: str
    is_admin: bool = False
    since_ms: int = 0
    """When their account was created: older items belong to an earlier user of the same name."""
    groups: frozenset[str] = field(default_factory=frozenset)
    virtual_clusters: frozenset[str] = field(default_factory=frozenset)

    def is_author_of(self, item: Item) -> bool:
        """Return whether an item is theirs."""
        return item.author == self.user and item.made_at_ms >= self.since_ms
