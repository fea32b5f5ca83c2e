"""The marketplace: the commands of the entrances, and the store of its items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from openpai.market.items import Content, Item, Kind, Reader, Revision


@dataclass(frozen=True, slots=True)
class ItemFilter:
    """Which items a list has, and in which order."""

    keyword: str = ""
    """In name, title, summary, tags or author."""
    kinds: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    author: str = ""
    status: str = ""
    """approved, pending, rejected, or waiting: what administrators have yet to approve."""
    is_official: bool | None = None
    is_starred: bool = False
    """Only those that the reader gave a star."""
    order: str = "stars"
    """stars, uses, newest or name."""
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True, slots=True)
class ItemPage:
    """A part of a list of items."""

    items: tuple[Item, ...]
    total: int


@dataclass(frozen=True, slots=True)
class ItemEdit:
    """What an author or administrator writes into an item."""

    content: Content
    comment: str = ""
    revision: int | None = None
    """The newest revision that they have seen; None: any."""
    is_official: bool | None = None
    """For administrators; None leaves it as it is."""


@dataclass(frozen=True, slots=True)
class FoundItem:
    """An item as a user sees it."""

    item: Item
    proposed: Revision | None = None
    """Its newest revision, if that waits for approval or was rejected; for its author and administrators."""
    may_change: bool = False


class MarketStore(Protocol):
    """Stores the items of the marketplace."""

    async def items(self, reader: Reader, where: ItemFilter) -> ItemPage:
        """Return the items that a user sees and that match."""

    async def categories(self, reader: Reader) -> Mapping[str, int]:
        """Return the categories of the items that a user sees, with their numbers, the largest first."""

    async def item(self, name: str, reader: Reader | None = None) -> Item | None:
        """Return an item with its whole content, None if there is none of this name, whoever may see it."""

    async def count(self, author: str) -> int:
        """Return how many items a user has."""

    async def revision(self, item: str, number: int) -> Revision | None:
        """Return a revision of an item, by the item's id."""

    async def revisions(self, item: str) -> Sequence[tuple[int, int, str, str]]:
        """Return number, time, user and comment of the revisions that are kept, the newest first."""

    async def add(self, item: Item, comment: str) -> None:
        """Add an item with its first revision. Raises Refused ConflictMarketItemError for a name that is in use."""

    async def change(self, item: Item, revision: Revision | None, *, newest: int) -> None:
        """Save an item and, if it was edited, its new revision.

        Raises Refused ConflictMarketItemError when its newest revision is not `newest` any more.
        """

    async def remove(self, item: str) -> None:
        """Remove an item with its revisions, stars and uses, by its id."""

    async def star(self, item: str, user: str, at_ms: int, *, is_given: bool) -> None:
        """Give an item a user's star, or take it back. Each user has one for each item."""

    async def add_use(self, item: str, user: str, job: str, at_ms: int) -> None:
        """Count a job that was submitted from an item; once, however often this is called."""


class Market(Protocol):
    """The marketplace, on any server."""

    async def items(self, reader: Reader, where: ItemFilter) -> ItemPage:
        """Return the items that a user sees and that match."""

    async def categories(self, reader: Reader) -> Mapping[str, int]:
        """Return the categories of the items that a user sees, with their numbers."""

    async def item(self, reader: Reader, name: str) -> FoundItem:
        """Return an item. Raises NoMarketItemError, also for one that the user may not see."""

    async def revisions(self, reader: Reader, name: str) -> Sequence[tuple[int, int, str, str]]:
        """Return number, time, user and comment of an item's revisions. Raises ForbiddenUserError for other users."""

    async def revision(self, reader: Reader, name: str, number: int) -> Revision:
        """Return one revision of an item, for its author and administrators. Raises NoMarketItemError."""

    async def publish(self, reader: Reader, name: str, kind: Kind, edit: ItemEdit, author: str = "") -> FoundItem:
        """Add an item. An administrator may name another author.

        Raises InvalidParameters, InvalidProtocol with the lines of a faulty job file or of secrets in it,
        ForbiddenUserError, and ConflictMarketItemError.
        """

    async def edit(self, reader: Reader, name: str, edit: ItemEdit) -> FoundItem:
        """Change an item. Raises what `publish` raises, and NoMarketItemError."""

    async def remove(self, reader: Reader, name: str) -> None:
        """Remove an item for good. Raises NoMarketItemError and ForbiddenUserError."""

    async def rate(self, reader: Reader, name: str, *, is_given: bool) -> FoundItem:
        """Give an item a star, or take it back. Raises NoMarketItemError."""

    async def review(
        self, reader: Reader, name: str, revision: int | None, *, is_approved: bool, reason: str
    ) -> FoundItem:
        """Approve or reject the newest revision of an item.

        Raises NoMarketItemError, and ConflictMarketItemError if there is a newer revision.
        """

    async def used(self, item: Item, user: str, job: str) -> None:
        """Count a job that was submitted from an item."""

    async def needs_approval(self) -> bool:
        """Return whether administrators approve items before others see them."""

    async def set_approval(self, *, is_asked: bool, by: str) -> None:
        """Set whether administrators approve items before others see them."""
