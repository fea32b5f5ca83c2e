"""What the store promises of the marketplace, asked of SQLite and of PostgreSQL alike."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from openpai.market.deciding import may_see
from openpai.market.items import REVISIONS_KEPT, Content, Item, Kind, Reader, Revision, Status, Visibility
from openpai.ports.market import ItemFilter
from openpai.protocol.errors import Refused
from openpai.store.database import Database
from openpai.store.market import SqlMarketStore

CONTENT = Content(
    "Trän", "a summary", "# text", "name: x", categories=("vision",), tags=("a", "b"), visibility=Visibility.SHARED,
    groups=("g",), virtual_clusters=("v",),
)  # fmt: skip
ITEM = Item("1", "train", Kind.TEMPLATE, "ann", 100, CONTENT, changed_at_ms=100, changed_by="ann")


@pytest.fixture
def store(database: Database) -> SqlMarketStore:
    return SqlMarketStore(database)


async def test_an_item_comes_back_as_it_was(store: SqlMarketStore) -> None:
    await store.add(ITEM, "first")
    assert await store.item("train") == ITEM
    assert await store.revision("1", 1) == Revision(1, 100, "ann", "first", CONTENT)
    assert await store.revisions("1") == [(1, 100, "ann", "first")]
    with pytest.raises(Refused) as taken:
        await store.add(replace(ITEM, id="2"), "")
    assert taken.value.code == "ConflictMarketItemError"


async def test_lists_show_what_the_rule_for_one_item_says(store: SqlMarketStore) -> None:
    contents = [replace(CONTENT, visibility=each) for each in Visibility]
    items = [
        Item(str(number), f"i{number}", Kind.MODEL, author, 100, content, status=status)
        for number, (author, content, status) in enumerate(
            (author, content, status) for author in ("ann", "bob") for content in contents for status in Status
        )
    ]
    for each in items:
        await store.add(each, "")
    for reader in (
        Reader("ann"),
        Reader("ann", since_ms=101),
        Reader("eve"),
        Reader("eve", groups=frozenset({"g", "h"})),
        Reader("eve", virtual_clusters=frozenset({"v"})),
        Reader("eve", groups=frozenset({"v"}), virtual_clusters=frozenset({"g"})),
        Reader("root", is_admin=True),
    ):
        page = await store.items(reader, ItemFilter(limit=200, order="name"))
        expected = {each.name for each in items if may_see(reader, each)}
        assert {each.name for each in page.items} == expected
        assert page.total == len(expected)
        assert (await store.categories(reader)).get("vision", 0) == len(expected)


async def test_of_many_edits_at_once_one_is_saved(store: SqlMarketStore) -> None:
    await store.add(ITEM, "")

    async def edit(number: int) -> bool:
        revision = Revision(2, 200, "ann", str(number), replace(CONTENT, title=str(number), groups=(), tags=("c",)))
        try:
            await store.change(replace(ITEM, newest=2, revision=2, content=revision.content), revision, newest=1)
        except Refused:
            return False
        return True

    assert sum(await asyncio.gather(*map(edit, range(8)))) == 1
    found = await store.item("train")
    assert found is not None
    assert [number for number, *_ in await store.revisions("1")] == [2, 1]
    eve = Reader("eve", groups=frozenset({"g"}))
    assert (await store.items(eve, ItemFilter())).items == ()
    assert (await store.items(Reader("ann"), ItemFilter(tags=("c",)))).total == 1
    assert (await store.items(Reader("ann"), ItemFilter(tags=("a",)))).total == 0


async def test_the_newest_revisions_and_the_one_that_is_shown_are_kept(store: SqlMarketStore) -> None:
    await store.add(ITEM, "")
    for number in range(2, REVISIONS_KEPT + 5):
        revision = Revision(number, 200, "ann", "", CONTENT)
        await store.change(replace(ITEM, newest=number), revision, newest=number - 1)
    kept = [number for number, *_ in await store.revisions("1")]
    assert len(kept) == REVISIONS_KEPT + 1
    assert kept[-1] == 1
    assert (await store.item("train")) == replace(ITEM, newest=REVISIONS_KEPT + 4)


async def test_stars_and_uses_are_counted_as_they_are(store: SqlMarketStore) -> None:
    await store.add(ITEM, "")
    await asyncio.gather(*(store.star("1", f"u{number % 3}", 1, is_given=True) for number in range(9)))
    await store.star("1", "u0", 2, is_given=False)
    await asyncio.gather(*(store.add_use("1", f"u{number % 2}", f"job{number % 4}", 1) for number in range(12)))
    found = await store.item("train", Reader("u1"))
    assert found is not None
    assert (found.stars, found.uses, found.users, found.is_starred) == (2, 4, 2, True)
    # An edit keeps the counts.
    await store.change(replace(found, newest=2), Revision(2, 1, "ann", "", CONTENT), newest=1)
    assert ((await store.item("train")) or ITEM).stars == 2


async def test_a_removed_item_leaves_nothing(store: SqlMarketStore) -> None:
    await store.add(ITEM, "")
    await store.star("1", "bob", 1, is_given=True)
    await store.add_use("1", "bob", "job", 1)
    await store.remove("1")
    assert await store.item("train") is None
    assert await store.revisions("1") == []
    assert await store.categories(Reader("root", is_admin=True)) == {}
    await store.star("1", "bob", 1, is_given=True)
    await store.add_use("1", "bob", "job", 1)
    await store.add(ITEM, "")
    assert await store.item("train", Reader("bob")) == ITEM
