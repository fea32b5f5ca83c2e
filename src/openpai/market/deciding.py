"""Decides who sees an item, who may change it, and what an edit of it becomes."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from openpai.market.items import Content, Item, Reader, Revision, Status, Visibility
from openpai.protocol.errors import Refused

FORBIDDEN: Final = "ForbiddenUserError"


def may_see(reader: Reader, item: Item) -> bool:
    """Return whether a user sees an item; the store answers the same question for lists."""
    if reader.is_admin or reader.is_author_of(item):
        return True
    if item.status is not Status.APPROVED:
        return False
    content = item.content
    if content.visibility is Visibility.SHARED:
        return bool(reader.groups & {*content.groups} or reader.virtual_clusters & {*content.virtual_clusters})
    return content.visibility is Visibility.PUBLIC


def may_change(reader: Reader, item: Item) -> bool:
    """Return whether a user may edit or remove an item: its author and administrators, official ones only these."""
    return reader.is_admin or (reader.is_author_of(item) and not item.is_official)


def check_change(reader: Reader, item: Item) -> None:
    """Raise ForbiddenUserError for a user who may not edit or remove an item."""
    if may_change(reader, item):
        return
    if item.is_official:
        raise Refused(FORBIDDEN, f"item {item.name} is official", "only administrators may change it; fork it instead")
    message = f"item {item.name} belongs to {item.author}"
    if item.author == reader.user:
        message += " of an earlier account with this name"
    raise Refused(FORBIDDEN, message, "only its author and administrators may change it; fork it instead")


def needs_approval(reader: Reader, content: Content, is_asked: bool) -> bool:
    """Return whether an administrator must approve what a user writes before others see it."""
    return is_asked and not reader.is_admin and content.visibility is not Visibility.PRIVATE


def edited(item: Item, revision: Revision, *, waits: bool) -> Item:
    """Return an item after an edit; one that waits for approval leaves what others see of an approved item as it is."""
    item = replace(item, newest=revision.revision, reason="", changed_at_ms=revision.at_ms, changed_by=revision.by)
    if waits and item.status is Status.APPROVED:
        return item
    status = Status.PENDING if waits else Status.APPROVED
    return replace(item, revision=revision.revision, content=revision.content, status=status)


def reviewed(item: Item, newest: Revision, *, is_approved: bool, reason: str) -> Item:
    """Return an item after an administrator approved or rejected its newest revision."""
    if is_approved:
        return replace(item, revision=newest.revision, content=newest.content, status=Status.APPROVED, reason="")
    status = Status.REJECTED if item.revision == item.newest else item.status
    return replace(item, status=status, reason=reason or "no reason was given")


def is_waiting(item: Item) -> bool:
    """Return whether an administrator has yet to approve or reject the newest revision of an item."""
    return item.status is Status.PENDING or (item.newest > item.revision and not item.reason)
