"""Assembles what alerts need: the sender of messages, the operator's commands, and what is watched beside jobs."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from openpai.app.settings import Settings
from openpai.notify.addresses import Network
from openpai.notify.service import Messenger
from openpai.protocol.errors import BadConfiguration, PaiError
from openpai.storage.service import StorageService
from openpai.system.disk_space import space_of
from openpai.system.supervision import note_failure

COMMANDS_MAX: Final = 100
STORAGES_EVERY_S: Final = 300.0
STORAGE_S: Final = 30.0
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def read_commands(path: Path | None) -> dict[str, tuple[str, ...]]:
    """Return the commands that alert rules may run, by name; raise Refused for a faulty file."""
    if path is None:
        return {}
    try:
        found: Any = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise _fault(path, f"cannot be read: {error}") from error
    if not isinstance(found, Mapping) or len(found) > COMMANDS_MAX:
        raise _fault(path, "is no mapping of up to 100 names to lists of words")
    for name, argv in found.items():
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise _fault(path, f"names a command {name!r}: use small letters, digits, ., _ and -")
        words = argv if isinstance(argv, list) else []
        if not words or not all(isinstance(each, str) and "\0" not in each for each in words):
            raise _fault(path, f"gives command {name!r} no list of words: a program and its arguments, without a shell")
        if not argv[0].startswith("/") or shutil.which(argv[0]) is None:
            raise _fault(path, f"gives command {name!r} the program {argv[0]!r}, which is no path of a program")
    return {name: tuple(argv) for name, argv in found.items()}


def read_networks(text: str | None) -> tuple[Network, ...]:
    """Return the networks that webhooks of users may reach; raise Refused for what is no network."""
    try:
        return tuple(ipaddress.ip_network(each, strict=False) for each in (text or "").replace(",", " ").split())
    except ValueError as error:
        raise BadConfiguration(f"names no network: {error}", "give networks such as 10.0.0.0/8") from error


def messenger(settings: Settings) -> Messenger:
    """Return the sender of messages."""
    return Messenger(read_networks(settings.webhook_networks))


def disk_free(directory: Path) -> float:
    """Return the free share of the disk of a directory."""
    space = space_of(str(directory))
    return space.free / space.total if space.total else 1.0


class StorageHealth:
    """Tries to connect to every storage from time to time."""

    def __init__(self, storages: StorageService) -> None:
        self._storages = storages
        self._found: dict[str, bool] = {}
        self._next_s = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __call__(self) -> Mapping[str, bool]:
        """Return which storages could be reached when it was tried last."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._next_s and (self._task is None or self._task.done()):
            self._next_s = now_s + STORAGES_EVERY_S
            self._task = asyncio.create_task(self._look())
        return self._found

    async def _look(self) -> None:
        try:
            found = {}
            for storage in await self._storages.all():
                try:
                    async with asyncio.timeout(STORAGE_S):
                        found[storage.name] = (await self._storages.reach(storage.name)).is_ok
                except (PaiError, TimeoutError):
                    found[storage.name] = False
            self._found = found
        except Exception as error:
            note_failure("look at the storages", error)

    def close(self) -> None:
        """Stop trying."""
        if self._task is not None:
            self._task.cancel()


def _fault(path: Path, message: str) -> BadConfiguration:
    return BadConfiguration(f"the file of --alert-commands, {path}, {message}", "docs/alerts.md describes it")
