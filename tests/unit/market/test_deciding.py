"""The rights to see and change an item, and what edits and reviews make of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openpai.market.deciding import check_change, edited, is_waiting, may_see, needs_approval, reviewed
from openpai.market.items import Content, Item, Kind, Reader, Revision, Status, Visibility
from openpai.protocol.errors import Refused

ANN, BOB, ROOT = Reader("ann"), Reader("bob"), Reader("root", is_admin=True)
ITEM = Item("1", "train", Kind.TEMPLATE, "ann", 100, Content("Train"))


def shown_text(number: int, title: str, by: str = "ann") -> Revision:
    return Revision(number, 200, by, "", Content(title))


def test_a_private_item_is_its_authors_and_the_administrators() -> None:
    private = replace(ITEM, content=Content("x", visibility=Visibility.PRIVATE))
    assert [may_see(each, private) for each in (ANN, BOB, ROOT)] == [True, False, True]


def test_a_shared_item_is_for_groups_and_virtual_clusters() -> None:
    content = Content("x", visibility=Visibility.SHARED, groups=("vision",), virtual_clusters=("team",))
    shared = replace(ITEM, content=content)
    assert may_see(Reader("bob", groups=frozenset({"vision"})), shared)
    assert may_see(Reader("bob", virtual_clusters=frozenset({"team"})), shared)
    assert not may_see(Reader("bob", groups=frozenset({"team"}), virtual_clusters=frozenset({"vision"})), shared)


def test_a_later_user_of_the_authors_name_is_another_one() -> None:
    later = Reader("ann", since_ms=101)
    assert not may_see(later, replace(ITEM, status=Status.PENDING))
    with pytest.raises(Refused, match="earlier account"):
        check_change(later, ITEM)
    check_change(ANN, ITEM)


def test_official_items_are_the_administrators() -> None:
    official = replace(ITEM, is_official=True)
    with pytest.raises(Refused, match="official"):
        check_change(ANN, official)
    check_change(ROOT, official)


def test_only_what_others_would_see_needs_approval() -> None:
    private = Content("x", visibility=Visibility.PRIVATE)
    assert needs_approval(ANN, Content("x"), True)
    assert not needs_approval(ANN, private, True)
    assert not needs_approval(ROOT, Content("x"), True)
    assert not needs_approval(ANN, Content("x"), False)


def test_an_edit_of_an_approved_item_waits_and_leaves_what_others_see() -> None:
    waiting = edited(ITEM, shown_text(2, "New"), waits=True)
    assert (waiting.content.title, waiting.revision, waiting.newest, waiting.status) == ("Train", 1, 2, Status.APPROVED)
    assert is_waiting(waiting)
    approved = reviewed(waiting, shown_text(2, "New"), is_approved=True, reason="")
    assert (approved.content.title, approved.revision, is_waiting(approved)) == ("New", 2, False)
    rejected = reviewed(waiting, shown_text(2, "New"), is_approved=False, reason="no")
    assert (rejected.content.title, rejected.status, rejected.reason) == ("Train", Status.APPROVED, "no")
    assert not is_waiting(rejected)
    again = edited(rejected, shown_text(3, "Newer"), waits=True)
    assert is_waiting(again)


def test_a_rejected_item_waits_again_after_an_edit() -> None:
    pending = replace(ITEM, status=Status.PENDING)
    rejected = reviewed(pending, shown_text(1, "Train"), is_approved=False, reason="")
    assert (rejected.status, rejected.reason) == (Status.REJECTED, "no reason was given")
    again = edited(rejected, shown_text(2, "New"), waits=True)
    assert (again.status, again.content.title, again.revision) == (Status.PENDING, "New", 2)
    assert edited(rejected, shown_text(2, "New"), waits=False).status is Status.APPROVED


def test_an_approved_item_can_be_taken_back() -> None:
    taken = reviewed(ITEM, shown_text(1, "Train"), is_approved=False, reason="broken")
    assert taken.status is Status.REJECTED
    assert not may_see(BOB, taken)
