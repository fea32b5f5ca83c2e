"""What all sessions of a connection have in common: when bytes last passed, and how one is ended from outside."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from openpai.ports.shells import Shell as TaskShell
from openpai.ports.shells import ShellCommand, Stream
from openpai.ssh.model import Services
from openpai.ssh.recording import Recorder
from openpai.ssh.rights import Reached

DISCONNECTED: Final = "disconnected"
"""Why a session ended whose client is gone."""


class Open:
    """A session that is open."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.active_at_s = self._loop.time()
        self.ended_by = DISCONNECTED
        """Why it ended, for the audit log."""
        self.message = ""
        """What its user is to read at the end, empty for nothing."""
        self.over = asyncio.Event()

    def touch(self) -> None:
        """Note that bytes pass."""
        self.active_at_s = self._loop.time()

    def end(self, ended_by: str, message: str = "") -> None:
        """End it, unless it has ended."""
        if not self.over.is_set():
            self.ended_by, self.message = ended_by, message
            self.over.set()

    def hang_up(self) -> None:
        """End it because its client is gone."""
        self.end(DISCONNECTED)


class Opening(Protocol):
    """A connection, as its sessions see it."""

    @property
    def services(self) -> Services:
        """Return what the gateway uses."""

    async def reach(self) -> Reached:
        """Return the task of the connection; raise Refused or Unavailable if it may not or cannot be reached."""

    def opened(self, session: Open) -> AbstractContextManager[None]:
        """Count a session, and end it when the connection ends or loses its rights."""

    def record(self, reached: Reached, detail: dict[str, Any]) -> Recorder:
        """Return what writes the begin and the end of a session into the audit log."""


async def start(connection: Opening, reached: Reached, words: tuple[str, ...]) -> TaskShell:
    """Start a command without a terminal in a task."""
    return await connection.services.rights.platform.shell(reached.key, ShellCommand(words))


async def connect(connection: Opening, reached: Reached, port: int) -> Stream:
    """Connect to a port of a task."""
    return await connection.services.rights.platform.connect(reached.key, port)
