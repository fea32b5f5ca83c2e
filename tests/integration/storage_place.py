"""A platform with a storage: the directory behind it, and who is granted it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from openpai.access.accounts import Group

from .api_world import World, open_world


@dataclass
class Place:
    """A platform, and a directory that is its storage `data`, granted to ann through the group `vision`."""

    world: World
    root: Path

    async def ask(self, method: str, path: str, user: str = "ann", **more: Any) -> Any:
        return await self.world.ask(method, path, user, **more)

    async def code(self, method: str, path: str, user: str = "ann", **more: Any) -> tuple[int, str]:
        answer = await self.ask(method, path, user, **more)
        return answer.status_code, answer.json().get("code", "")

    async def add(self, name: str, kind: str = "local", **more: Any) -> Any:
        data = more.pop("data", {"path": str(self.root)})
        return await self.ask("POST", "/storages", "root", json={"name": name, "type": kind, "data": data, **more})


@asynccontextmanager
async def open_place(tmp_path: Path) -> AsyncIterator[Place]:
    """Open a platform with the storage `data`."""
    async with open_world(tmp_path) as world:
        await world.users.add_group(Group("vision"))
        await world.users.change_user("ann", lambda ann: replace(ann, groups=(*ann.groups, Group("vision"))))
        root = tmp_path / "shared"
        root.mkdir()
        place = Place(world, root)
        assert (await place.add("data")).status_code == 201
        assert (await place.ask("PUT", "/storages/data/groups/vision", "root")).status_code == 201
        yield place
