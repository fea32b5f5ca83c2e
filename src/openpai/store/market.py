"""Stores the items of the marketplace. What others see of an item is in its row, its texts are in its revisions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from openpai.market.items import REVISIONS_KEPT, Content, Item, Kind, Reader, Revision, Status, Visibility
from openpai.ports.market import ItemFilter, ItemPage
from openpai.protocol.errors import Refused
from openpai.store.database import Stored
from openpai.store.schema import market_items as items
from openpai.store.schema import market_marks as marks
from openpai.store.schema import market_revisions as revisions
from openpai.store.schema import market_stars as stars
from openpai.store.schema import market_uses as uses

CONFLICT: Final = "ConflictMarketItemError"
_MARKS: Final = ("categories", "tags", "groups", "virtual_clusters")
_ORDERS: Final[Mapping[str, Sequence[Any]]] = {
    "stars": (items.c.stars.desc(), items.c.name),
    "uses": (items.c.uses.desc(), items.c.name),
    "newest": (items.c.changed_at_ms.desc(), items.c.name),
    "name": (items.c.name,),
}


class SqlMarketStore(Stored):
    """`ports.market.MarketStore` over SQLite or PostgreSQL."""

    async def items(self, reader: Reader, where: ItemFilter) -> ItemPage:
        wanted = sa.and_(_is_visible(reader), *_filters(reader, where))
        query = sa.select(items, _is_starred(reader)).where(wanted).order_by(*_ORDERS[where.order])
        query = query.limit(where.limit).offset(where.offset)
        count = sa.select(sa.func.count()).select_from(items).where(wanted)

        def work(connection: sa.Connection) -> ItemPage:
            found = connection.execute(query).mappings().all()
            return ItemPage(tuple(map(_item, found)), connection.execute(count).scalar_one())

        return await self._database.read(work)

    async def categories(self, reader: Reader) -> Mapping[str, int]:
        count = sa.func.count()
        query = (
            sa.select(marks.c.name, count)
            .join(items, items.c.id == marks.c.item)
            .where(marks.c.kind == "categories", _is_visible(reader))
            .group_by(marks.c.name)
            .order_by(count.desc(), marks.c.name)
        )
        found = await self._database.read(lambda connection: connection.execute(query).all())
        return dict(tuple(row) for row in found)

    async def item(self, name: str, reader: Reader | None = None) -> Item | None:
        query = sa.select(items, revisions.c.body, _is_starred(reader)).join(
            revisions, sa.and_(revisions.c.item == items.c.id, revisions.c.revision == items.c.revision)
        )
        query = query.where(items.c.name == name)
        row = await self._database.read(lambda connection: connection.execute(query).mappings().first())
        return replace(_item(row), content=_content(row["body"])) if row else None

    async def count(self, author: str) -> int:
        query = sa.select(sa.func.count()).select_from(items).where(items.c.author == author)
        return await self._database.read(lambda connection: connection.execute(query).scalar_one())

    async def revision(self, item: str, number: int) -> Revision | None:
        query = sa.select(revisions).where(revisions.c.item == item, revisions.c.revision == number)
        row = await self._database.read(lambda connection: connection.execute(query).mappings().first())
        return Revision(number, row["at_ms"], row["by"], row["comment"], _content(row["body"])) if row else None

    async def revisions(self, item: str) -> Sequence[tuple[int, int, str, str]]:
        kept = revisions.c
        query = sa.select(kept.revision, kept.at_ms, kept.by, kept.comment).where(kept.item == item)
        query = query.order_by(kept.revision.desc())
        found = await self._database.read(lambda connection: connection.execute(query).all())
        return [(row[0], row[1], row[2], row[3]) for row in found]

    async def add(self, item: Item, comment: str) -> None:
        first = Revision(1, item.made_at_ms, item.author, comment, item.content)

        def work(connection: sa.Connection) -> None:
            try:
                with connection.begin_nested():
                    connection.execute(items.insert(), {"id": item.id, **_counts(), **_columns(item)})
            except exc.IntegrityError as error:
                message = f"there is already an item named {item.name!r}"
                raise Refused(CONFLICT, message, "choose another name, or edit that item if it is yours") from error
            connection.execute(revisions.insert(), _revision_columns(item.id, first))
            _mark(connection, item)

        await self._database.write(work)

    async def change(self, item: Item, revision: Revision | None, *, newest: int) -> None:
        changed = sa.update(items).where(items.c.id == item.id, items.c.newest == newest).values(_columns(item))

        def work(connection: sa.Connection) -> None:
            if connection.execute(changed).rowcount == 0:
                message = f"item {item.name} was edited or removed meanwhile; revision {newest} is not the newest one"
                raise Refused(CONFLICT, message, "read it again, and repeat your change")
            if revision is not None:
                connection.execute(revisions.insert(), _revision_columns(item.id, revision))
            old = sa.delete(revisions).where(
                revisions.c.item == item.id,
                revisions.c.revision <= item.newest - REVISIONS_KEPT,
                revisions.c.revision != item.revision,
            )
            connection.execute(old)
            connection.execute(sa.delete(marks).where(marks.c.item == item.id))
            _mark(connection, item)

        await self._database.write(work)

    async def remove(self, item: str) -> None:
        def work(connection: sa.Connection) -> None:
            for table in (revisions, marks, stars, uses):
                connection.execute(sa.delete(table).where(table.c.item == item))
            connection.execute(sa.delete(items).where(items.c.id == item))

        await self._database.write(work)

    async def star(self, item: str, user: str, at_ms: int, *, is_given: bool) -> None:
        own = sa.and_(stars.c.item == item, stars.c.owner == user)
        count = sa.select(sa.func.count()).select_from(stars).where(stars.c.item == item).scalar_subquery()

        def work(connection: sa.Connection) -> None:
            # A change of an item's stars holds its row, so that no two changes count at the same time.
            if connection.execute(_held(item)).first() is None:
                return
            connection.execute(sa.delete(stars).where(own))
            if is_given:
                connection.execute(stars.insert(), {"item": item, "owner": user, "at_ms": at_ms})
            connection.execute(sa.update(items).where(items.c.id == item).values(stars=count))

        await self._database.write(work)

    async def add_use(self, item: str, user: str, job: str, at_ms: int) -> None:
        of_item = sa.select(sa.func.count()).select_from(uses).where(uses.c.item == item).scalar_subquery()
        owners = sa.select(sa.func.count(sa.distinct(uses.c.owner))).where(uses.c.item == item).scalar_subquery()

        def work(connection: sa.Connection) -> None:
            if connection.execute(_held(item)).first() is None:
                return
            if connection.execute(sa.select(uses.c.job).where(uses.c.job == job)).first() is None:
                connection.execute(uses.insert(), {"job": job, "item": item, "owner": user, "at_ms": at_ms})
                connection.execute(sa.update(items).where(items.c.id == item).values(uses=of_item, users=owners))

        await self._database.write(work)


def _held(item: str) -> Any:
    return sa.select(items.c.id).where(items.c.id == item).with_for_update()


def _is_visible(reader: Reader) -> Any:
    """Return the condition that `market.deciding.may_see` is for one item."""
    if reader.is_admin:
        return sa.true()
    own = sa.and_(items.c.author == reader.user, items.c.made_at_ms >= reader.since_ms)
    shared = sa.or_(
        sa.and_(marks.c.kind == "groups", marks.c.name.in_(sorted(reader.groups))),
        sa.and_(marks.c.kind == "virtual_clusters", marks.c.name.in_(sorted(reader.virtual_clusters))),
    )
    is_shared = sa.exists().where(marks.c.item == items.c.id, shared).correlate(items)
    is_open = sa.or_(
        items.c.visibility == Visibility.PUBLIC.value,
        sa.and_(items.c.visibility == Visibility.SHARED.value, is_shared),
    )
    return sa.or_(own, sa.and_(items.c.status == Status.APPROVED.value, is_open))


def _filters(reader: Reader, where: ItemFilter) -> list[Any]:
    found: list[Any] = [items.c.search.contains(word, autoescape=True) for word in where.keyword.casefold().split()]
    if where.kinds:
        found.append(items.c.kind.in_(where.kinds))
    for kind, names in (("categories", where.categories), ("tags", where.tags)):
        marked = [sa.select(marks.c.item).where(marks.c.kind == kind, marks.c.name == name) for name in names]
        found += [items.c.id.in_(query) for query in marked]
    if where.author:
        found.append(items.c.author == where.author)
    if where.status == "waiting":
        has_proposal = sa.and_(items.c.newest > items.c.revision, items.c.reason == "")
        found.append(sa.or_(items.c.status == Status.PENDING.value, has_proposal))
    elif where.status:
        found.append(items.c.status == where.status)
    if where.is_official is not None:
        found.append(items.c.is_official.is_(where.is_official))
    if where.is_starred:
        found.append(items.c.id.in_(sa.select(stars.c.item).where(stars.c.owner == reader.user)))
    return found


def _is_starred(reader: Reader | None) -> Any:
    user = reader.user if reader is not None else ""
    own = sa.exists().where(stars.c.item == items.c.id, stars.c.owner == user).correlate(items)
    return sa.case((own, 1), else_=0).label("is_starred")


def _counts() -> dict[str, int]:
    return {"stars": 0, "uses": 0, "users": 0}


def _columns(item: Item) -> dict[str, Any]:
    content = item.content
    words = (item.name, content.title, content.summary, item.author, *content.tags, *content.categories)
    return {
        "name": item.name, "kind": item.kind.value, "author": item.author, "made_at_ms": item.made_at_ms,
        "title": content.title, "summary": content.summary, "search": " ".join(words).casefold(),
        "labels": json.dumps({kind: list(getattr(content, kind)) for kind in _MARKS}),
        "visibility": content.visibility.value, "status": item.status.value, "reason": item.reason,
        "revision": item.revision, "newest": item.newest, "is_official": item.is_official,
        "changed_at_ms": item.changed_at_ms, "changed_by": item.changed_by,
    }  # fmt: skip


def _revision_columns(item: str, revision: Revision) -> dict[str, Any]:
    body = json.dumps(asdict(revision.content))
    return {
        "item": item, "revision": revision.revision, "at_ms": revision.at_ms, "by": revision.by,
        "comment": revision.comment, "body": body,
    }  # fmt: skip


def _mark(connection: sa.Connection, item: Item) -> None:
    rows = [
        {"kind": kind, "name": name, "item": item.id}
        for kind in _MARKS
        for name in dict.fromkeys(getattr(item.content, kind))
    ]
    if rows:
        connection.execute(marks.insert(), rows)


def _item(row: sa.RowMapping) -> Item:
    labels: dict[str, Any] = {kind: tuple(names) for kind, names in json.loads(row["labels"]).items()}
    content = replace(Content(row["title"], row["summary"], visibility=Visibility(row["visibility"])), **labels)
    return Item(
        row["id"], row["name"], Kind(row["kind"]), row["author"], row["made_at_ms"], content, row["revision"],
        row["newest"], Status(row["status"]), row["reason"], row["is_official"], row["changed_at_ms"],
        row["changed_by"], row["stars"], bool(row["is_starred"]), row["uses"], row["users"],
    )  # fmt: skip


def _content(body: str) -> Content:
    read = json.loads(body)
    labels = {name: tuple(read[name]) for name in _MARKS}
    return Content(**{**read, **labels, "visibility": Visibility(read["visibility"])})
