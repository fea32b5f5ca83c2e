"""Commands of a server that leads, over one running task of ann's job `train`, for tests of what enters tasks."""

from __future__ import annotations

import copy
from typing import TypeVar

from openpai.lifecycle.model import AttemptKey
from openpai.ports.shells import not_running

from .api_world import Here, World


class Leading(Here):
    """Commands of a server that leads; a kind of them says what a shell is."""

    running: set[AttemptKey]

    async def require_leader(self) -> None:
        return

    async def check_shell(self, key: AttemptKey) -> None:
        if key not in self.running:
            raise not_running(key)


Kind = TypeVar("Kind", bound=Leading)


async def leading(world: World, kind: type[Kind]) -> Kind:
    """Start ann's job, and return commands of this kind beside those of the world."""
    key = AttemptKey(await world.submit("train"), 0, "worker", 0, 0)
    await world.grant()
    await world.started(key)
    commands = copy.copy(world.commands)
    commands.__class__ = kind
    assert isinstance(commands, kind)
    commands.running = {key}
    return commands
