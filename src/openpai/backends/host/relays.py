"""Connections to ports of tasks through a command in the task, where the server cannot enter its network."""

from __future__ import annotations

from typing import Self

from openpai.lifecycle.model import AttemptKey
from openpai.ports.shells import STDOUT, NothingListens, Shell, is_of_others
from openpai.protocol.errors import Refused
from openpai.runtime.shell import NO_RELAY, NOT_OWN


class RelayStream:
    """A connection whose bytes are the standard input and output of a command."""

    def __init__(self, shell: Shell, first: bytes) -> None:
        self._shell = shell
        self._first = first

    @classmethod
    async def open(cls, shell: Shell, key: AttemptKey, port: int) -> Self:
        """Wait until the command is connected; raise Unavailable or Refused if it cannot be, and close it."""
        while (piece := await shell.read()) is not None:
            if piece.stream == STDOUT:
                return cls(shell, piece.data[1:])
        code = shell.exit_code
        await shell.close()
        if code == NO_RELAY:
            message = "the image has none of socat, python3, nc and bash, so its ports cannot be reached from here"
            raise Refused("NotImplementedError", message, "use an image with one of them")
        if code == NOT_OWN:
            raise is_of_others(key, port)
        raise NothingListens(port)

    async def read(self) -> bytes:
        """Wait for bytes and return them; none at the end."""
        if self._first:
            first, self._first = self._first, b""
            return first
        while (piece := await self._shell.read()) is not None:
            if piece.stream == STDOUT:
                return piece.data
        return b""

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        await self._shell.write(data)

    async def close_write(self) -> None:
        """Say that no more bytes follow."""
        await self._shell.close_stdin()

    async def close(self) -> None:
        """Close the connection."""
        await self._shell.close()
