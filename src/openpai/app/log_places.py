"""Says which server has the log of a task: replicas share a directory of logs, or the leader alone has what is new.

A directory of logs has an identity, and the leader names its own in a setting. A server whose directory is another one
answers from it what it holds completely, and forwards other requests to the leader.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
from functools import partial
from pathlib import Path
from typing import Final

from openpai.backends.kubernetes.log_files import CURSOR_FILE
from openpai.lifecycle.model import AttemptKey
from openpai.orchestrator.commands import PlatformCommands
from openpai.ports.clock import Clock
from openpai.ports.cluster_settings import LOGS, SettingsStore
from openpai.ports.platform import NotLeading
from openpai.ports.store import LEASE_MS, JobStore

PLACE_FILE: Final = ".place"


class LogPlaces:
    """Compares the directory of logs of this server with the leader's."""

    def __init__(
        self, root: Path, store: JobStore, settings: SettingsStore, commands: PlatformCommands, clock: Clock
    ) -> None:
        self._root = root
        self._store = store
        self._settings = settings
        self._commands = commands
        self._clock = clock
        self._mine = ""

    async def announce(self, epoch: int) -> None:
        """Store that logs come into the directory of this server. Raises LeaseLost."""
        body = {"place": await self._identity()}
        setting = await self._settings.setting(LOGS)
        if setting is None or setting.body != body:
            await self._settings.set_setting(LOGS, body, by="", at_ms=self._clock.now_ms(), epoch=epoch)

    async def require(self, key: AttemptKey) -> None:
        """Raise NotLeading if another server leads whose directory has this log, and ours may not have all of it."""
        if self._commands.leader is not None:
            return
        setting = await self._settings.setting(LOGS)
        if setting is None or setting.body.get("place") in ("", None, await self._identity()):
            return
        if await asyncio.to_thread(self._is_complete, key):
            return
        if url := await self._store.leader_url(LEASE_MS):
            raise NotLeading(url, partial(self._store.leader_url, LEASE_MS))

    async def require_work(self) -> None:
        """Raise NotLeading if another server leads whose directory, with what tasks left, is not ours."""
        if self._commands.leader is not None:
            return
        setting = await self._settings.setting(LOGS)
        if setting is None or setting.body.get("place") in ("", None, await self._identity()):
            return
        if url := await self._store.leader_url(LEASE_MS):
            raise NotLeading(url, partial(self._store.leader_url, LEASE_MS))

    def _is_complete(self, key: AttemptKey) -> bool:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return bool(json.loads((self._root / key.path() / CURSOR_FILE).read_text())["complete"])
        return False

    async def _identity(self) -> str:
        if not self._mine:
            self._mine = await asyncio.to_thread(_identity_of, self._root)
        return self._mine


def _identity_of(root: Path) -> str:
    """Return the identity of a directory; empty for one without any that this server may not write."""
    path = root / PLACE_FILE
    made = root / f"{PLACE_FILE}-{secrets.token_hex(8)}"
    try:
        with contextlib.suppress(FileNotFoundError):
            return path.read_text()
        made.write_text(secrets.token_hex(16))
        # A link appears with its content, and the first of two servers wins.
        with contextlib.suppress(FileExistsError):
            os.link(made, path)
        return path.read_text()
    except OSError:
        return ""
    finally:
        with contextlib.suppress(OSError):
            made.unlink()
