"""Items of the marketplace as documents."""

from __future__ import annotations

import json
from collections.abc import Sequence

from openpai.market.items import Content, Item, Revision
from openpai.market.running import parameters_of, secrets_of
from openpai.ports.market import FoundItem
from openpai.wire import market as wire


def item(found: Item) -> wire.MarketItem:
    """Return an item as lists have it."""
    content = found.content
    return {
        "name": found.name,
        "kind": found.kind.value,
        "title": content.title,
        "summary": content.summary,
        "author": found.author,
        "official": found.is_official,
        "categories": content.categories,
        "tags": content.tags,
        "visibility": content.visibility.value,
        "groups": content.groups,
        "virtualClusters": content.virtual_clusters,
        "status": found.status.value,
        "stars": found.stars,
        "starred": found.is_starred,
        "uses": found.uses,
        "users": found.users,
        "createdTime": found.made_at_ms,
        "changedTime": found.changed_at_ms,
    }


def detail(found: FoundItem) -> wire.MarketDetail:
    """Return an item with its texts."""
    one, content = found.item, found.item.content
    own = parameters_of(content.protocol) if content.protocol else {}
    return {
        **item(one),
        "revision": one.revision,
        "newest": one.newest,
        "changedBy": one.changed_by,
        "description": content.description,
        "protocol": content.protocol,
        "parameters": [{"name": name, "value": value} for name, value in own.items()],
        "secrets": secrets_of(content.protocol) if content.protocol else (),
        "storage": content.storage,
        "path": content.path,
        "address": content.address,
        "reason": one.reason,
        "proposed": revision(found.proposed) if found.proposed is not None else None,
        "editable": found.may_change,
        "usage": _usage(content),
    }


def revision(found: Revision) -> wire.MarketRevision:
    """Return one revision of an item."""
    content = found.content
    return {
        "revision": found.revision,
        "time": found.at_ms,
        "user": found.by,
        "comment": found.comment,
        "title": content.title,
        "summary": content.summary,
        "description": content.description,
        "protocol": content.protocol,
        "storage": content.storage,
        "path": content.path,
        "address": content.address,
        "categories": content.categories,
        "tags": content.tags,
        "visibility": content.visibility.value,
        "groups": content.groups,
        "virtualClusters": content.virtual_clusters,
    }


def edits(found: Sequence[tuple[int, int, str, str]]) -> list[wire.MarketEdit]:
    """Return the edits of an item, the newest first."""
    return [{"revision": number, "time": at, "user": by, "comment": comment} for number, at, by, comment in found]


def _usage(content: Content) -> str:
    """Return the part of a job file that makes a data set or a model reachable in its tasks."""
    if content.storage:
        where = f"/{content.path.strip('/')}" if content.path.strip("/") else ""
        lines = (
            f"# Tasks find it at /mnt/{content.storage}{where}", "extras:", "  storages:",
            f"    - name: {json.dumps(content.storage, ensure_ascii=False)}",
        )  # fmt: skip
        return "\n".join(lines) + "\n"
    return f"# Commands of a job fetch it from {content.address}\n" if content.address else ""
