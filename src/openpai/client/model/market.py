"""Items of the marketplace, their revisions, and jobs that were submitted from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openpai.client.model.reading import (
    Answer,
    Document,
    amount,
    flag,
    number,
    part_if_any,
    parts,
    text,
    texts,
    value,
    whole,
)


@dataclass(frozen=True, slots=True)
class MarketItem(Answer):
    """An item of the marketplace, as lists have it."""

    name: str = text("name")
    kind: str = text("kind")
    """template, dataset or model."""
    title: str = text("title")
    summary: str = text("summary")
    author: str = text("author")
    is_official: bool = flag("official")
    categories: tuple[str, ...] = texts("categories")
    tags: tuple[str, ...] = texts("tags")
    visibility: str = text("visibility")
    """public, shared or private."""
    groups: tuple[str, ...] = texts("groups")
    virtual_clusters: tuple[str, ...] = texts("virtualClusters")
    status: str = text("status")
    """approved, pending or rejected."""
    stars: int = amount("stars")
    is_starred: bool = flag("starred")
    uses: int = amount("uses")
    users: int = amount("users")
    created_at_ms: int | None = number("createdTime")
    changed_at_ms: int | None = number("changedTime")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class MarketPage(Answer):
    """A part of a list of items."""

    total: int = amount("total")
    items: tuple[MarketItem, ...] = parts(MarketItem, "items")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class MarketParameter(Answer):
    """A parameter of an item's job file, with its default."""

    name: str = text("name")
    value: Any = value("value", convert=lambda found: found)


@dataclass(frozen=True, slots=True)
class MarketRevision(Answer):
    """The content of one revision of an item."""

    revision: int = amount("revision")
    at_ms: int | None = number("time")
    user: str = text("user")
    comment: str = text("comment")
    title: str = text("title")
    summary: str = text("summary")
    description: str = text("description")
    protocol: str = text("protocol")
    storage: str = text("storage")
    path: str = text("path")
    address: str = text("address")
    categories: tuple[str, ...] = texts("categories")
    tags: tuple[str, ...] = texts("tags")
    visibility: str = text("visibility")
    groups: tuple[str, ...] = texts("groups")
    virtual_clusters: tuple[str, ...] = texts("virtualClusters")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class MarketDetail(MarketItem):
    """An item of the marketplace with its texts."""

    revision: int = amount("revision")
    newest: int = amount("newest")
    changed_by: str = text("changedBy")
    description: str = text("description")
    protocol: str = text("protocol")
    parameters: tuple[MarketParameter, ...] = parts(MarketParameter, "parameters")
    secrets: tuple[str, ...] = texts("secrets")
    storage: str = text("storage")
    path: str = text("path")
    address: str = text("address")
    reason: str = text("reason")
    proposed: MarketRevision | None = part_if_any(MarketRevision, "proposed")
    is_editable: bool = flag("editable")
    usage: str = text("usage")


@dataclass(frozen=True, slots=True)
class MarketEdit(Answer):
    """One edit of an item."""

    revision: int = amount("revision")
    at_ms: int | None = number("time")
    user: str = text("user")
    comment: str = text("comment")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class MarketCategory(Answer):
    """A category, and how many of its items the user sees."""

    name: str = text("name")
    items: int = amount("items")


@dataclass(frozen=True, slots=True)
class MarketSettings(Answer):
    """Settings of the marketplace."""

    needs_approval: bool = flag("approval")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class MarketRun(Answer):
    """A job that was submitted from an item."""

    item: str = text("item")
    revision: int = amount("revision")
    user: str = text("user")
    name: str = text("name")
    id: str = text("id")
    warnings: tuple[str, ...] = texts("warnings")
    document: Document = whole()

    @property
    def full_name(self) -> str:
        """Return `user~job`."""
        return f"{self.user}~{self.name}"
