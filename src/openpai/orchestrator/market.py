"""The marketplace: who may publish, edit, review and rate items. It needs no leader: the store settles races."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from openpai.market.checking import check_content, check_name
from openpai.market.deciding import FORBIDDEN, check_change, edited, is_waiting, may_change, may_see, needs_approval
from openpai.market.deciding import reviewed as after_review
from openpai.market.items import ITEMS_OF_AUTHOR_MAX, Item, Kind, Reader, Revision, Status
from openpai.ports.clock import Clock, Identities
from openpai.ports.cluster_settings import MARKET, SettingsStore
from openpai.ports.market import FoundItem, ItemEdit, ItemFilter, ItemPage, MarketStore
from openpai.protocol.errors import InvalidParameters, Refused

NO_ITEM: Final = "NoMarketItemError"
CONFLICT: Final = "ConflictMarketItemError"


class MarketService:
    """`ports.market.Market`."""

    def __init__(self, store: MarketStore, settings: SettingsStore, clock: Clock, identities: Identities) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._identities = identities

    async def items(self, reader: Reader, where: ItemFilter) -> ItemPage:
        return await self._store.items(reader, where)

    async def categories(self, reader: Reader) -> Mapping[str, int]:
        return await self._store.categories(reader)

    async def item(self, reader: Reader, name: str) -> FoundItem:
        item = await self._found(reader, name)
        is_theirs = reader.is_admin or reader.is_author_of(item)
        proposed = None
        if is_theirs and item.newest > item.revision:
            proposed = await self._store.revision(item.id, item.newest)
        # Whether it is approved is no matter of others.
        shown = item if is_theirs else replace(item, newest=item.revision, reason="")
        return FoundItem(shown, proposed, may_change(reader, item))

    async def revisions(self, reader: Reader, name: str) -> Sequence[tuple[int, int, str, str]]:
        item = await self._found(reader, name)
        self._check_theirs(reader, item)
        return await self._store.revisions(item.id)

    async def revision(self, reader: Reader, name: str, number: int) -> Revision:
        item = await self._found(reader, name)
        self._check_theirs(reader, item)
        found = await self._store.revision(item.id, number)
        if found is None:
            raise Refused(NO_ITEM, f"item {name} has no revision {number}", "the newest ones are kept")
        return found

    async def publish(self, reader: Reader, name: str, kind: Kind, edit: ItemEdit, author: str = "") -> FoundItem:
        check_name(name)
        if author not in ("", reader.user) and not reader.is_admin:
            raise Refused(FORBIDDEN, "an item's author is who publishes it", "only administrators name another one")
        self._check_official(reader, edit)
        await asyncio.to_thread(check_content, kind, edit.content)
        by = author or reader.user
        if not reader.is_admin and await self._store.count(by) >= ITEMS_OF_AUTHOR_MAX:
            raise InvalidParameters(f"{by} has {ITEMS_OF_AUTHOR_MAX} items already", "remove one first")
        # The clock of another server, which created the account, may be ahead of ours.
        now_ms = max(self._clock.now_ms(), reader.since_ms)
        waits = needs_approval(reader, edit.content, await self.needs_approval())
        status = Status.PENDING if waits else Status.APPROVED
        item = Item(
            self._identities.new(), name, kind, by, now_ms, edit.content, status=status,
            is_official=bool(edit.is_official), changed_at_ms=now_ms, changed_by=reader.user,
        )  # fmt: skip
        await self._store.add(item, edit.comment)
        return FoundItem(item, None, may_change(reader, item))

    async def edit(self, reader: Reader, name: str, edit: ItemEdit) -> FoundItem:
        item = await self._found(reader, name)
        check_change(reader, item)
        self._check_official(reader, edit)
        await asyncio.to_thread(check_content, item.kind, edit.content)
        seen = item.newest if edit.revision is None else edit.revision
        waits = needs_approval(reader, edit.content, await self.needs_approval())
        revision = Revision(seen + 1, self._clock.now_ms(), reader.user, edit.comment, edit.content)
        after = edited(item, revision, waits=waits)
        if edit.is_official is not None:
            after = replace(after, is_official=edit.is_official)
        await self._store.change(after, revision, newest=seen)
        return await self.item(reader, name)

    async def remove(self, reader: Reader, name: str) -> None:
        item = await self._found(reader, name)
        check_change(reader, item)
        await self._store.remove(item.id)

    async def rate(self, reader: Reader, name: str, *, is_given: bool) -> FoundItem:
        item = await self._found(reader, name)
        await self._store.star(item.id, reader.user, self._clock.now_ms(), is_given=is_given)
        return await self.item(reader, name)

    async def review(
        self, reader: Reader, name: str, revision: int | None, *, is_approved: bool, reason: str
    ) -> FoundItem:
        item = await self._found(reader, name)
        seen = item.newest if revision is None else revision
        newest = await self._store.revision(item.id, seen)
        if seen != item.newest or newest is None:
            message = f"revision {seen} of item {name} is not its newest one"
            raise Refused(CONFLICT, message, "look at the newest one, which is another text")
        if not is_approved and not is_waiting(item) and item.status is not Status.APPROVED:
            raise InvalidParameters(f"item {name} is rejected already", "its author may edit it")
        await self._store.change(
            after_review(item, newest, is_approved=is_approved, reason=reason), None, newest=item.newest
        )
        return await self.item(reader, name)

    async def used(self, item: Item, user: str, job: str) -> None:
        await self._store.add_use(item.id, user, job, self._clock.now_ms())

    async def needs_approval(self) -> bool:
        setting = await self._settings.setting(MARKET)
        return bool(setting is not None and setting.body.get("approval"))

    async def set_approval(self, *, is_asked: bool, by: str) -> None:
        before = await self._settings.setting(MARKET)
        body = {**(before.body if before is not None else {}), "approval": is_asked}
        version = before.version if before is not None else 0
        await self._settings.set_setting(MARKET, body, by=by, at_ms=self._clock.now_ms(), version=version)

    async def seed(self, found: Sequence[tuple[str, ItemEdit]], author: str) -> int:
        """Add official templates that were never added before; return how many. What was removed stays removed."""
        before = await self._settings.setting(MARKET)
        body = before.body if before is not None else {}
        known = body.get("seeded", [])
        new = [(name, edit) for name, edit in found if name not in known]
        if not new:
            return 0
        version = before.version if before is not None else 0
        names = [*known, *(name for name, _ in new)]
        by = Reader(author, is_admin=True)
        added = 0
        for name, edit in new:
            try:
                await self.publish(by, name, Kind.TEMPLATE, edit)
                added += 1
            except Refused as error:
                if error.code != CONFLICT:
                    raise
        # Only now: a server that dies before finds what it added by its name.
        now_ms = self._clock.now_ms()
        await self._settings.set_setting(MARKET, {**body, "seeded": names}, by=author, at_ms=now_ms, version=version)
        return added

    async def _found(self, reader: Reader, name: str) -> Item:
        item = await self._store.item(name, reader)
        # One that they may not see is not known to them.
        if item is None or not may_see(reader, item):
            raise Refused(NO_ITEM, f"there is no item named {name!r}", "`pai market list` shows the items")
        return item

    def _check_theirs(self, reader: Reader, item: Item) -> None:
        if not reader.is_admin and not reader.is_author_of(item):
            message = f"only {item.author} and administrators see earlier revisions of item {item.name}"
            raise Refused(FORBIDDEN, message, "what it is now, everybody who may see it reads")

    def _check_official(self, reader: Reader, edit: ItemEdit) -> None:
        if edit.is_official and not reader.is_admin:
            raise Refused(FORBIDDEN, "only administrators make items official", "publish it as your own")
