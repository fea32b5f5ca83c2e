"""Commands in a container of the Engine: their streams, the size of their terminal, and their exit code."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

import aiodocker
import aiohttp
from aiodocker.exceptions import DockerError
from aiodocker.stream import Message, Stream
from yarl import URL

_CODE_PATIENCE_S: Final = 10.0
_LOOK_S: Final = 0.01
_LOST: Final = (DockerError, aiohttp.ClientError, OSError, RuntimeError)


class EngineExec:
    """A command in a container. Errors of the Engine are those of aiodocker until it has started."""

    def __init__(self, docker: aiodocker.Docker, id_: str, *, is_terminal: bool) -> None:
        self._docker = docker
        self._id = id_
        self._stream = Stream(docker, self._request, aiohttp.ClientTimeout(total=None))
        self._is_terminal = is_terminal

    async def start(self) -> None:
        """Start the command."""
        await self._stream.__aenter__()

    async def read(self) -> Message | None:
        """Wait for output and return it; None at its end."""
        try:
            return await self._stream.read_out()
        except _LOST:
            return None

    async def write(self, data: bytes) -> None:
        """Send to standard input; what an ended command would get is lost."""
        try:
            await self._stream.write_in(data)
        except (AssertionError, *_LOST):
            return

    def close_stdin(self) -> None:
        """Let the command read the end of its standard input."""
        # aiodocker closes both directions only.
        transport = self._transport()
        if transport is not None and transport.can_write_eof():
            transport.write_eof()

    async def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal; one of a command that has just ended has none."""
        try:
            async with self._docker._query(  # noqa: SLF001
                URL(f"exec/{self._id}/resize").with_query({"h": rows, "w": columns}), method="POST"
            ):
                pass
        except _LOST:
            return

    async def code(self) -> int | None:
        """Return the exit code of a command whose output has ended; None if it goes on, or the Engine is silent."""
        deadline_s = asyncio.get_running_loop().time() + _CODE_PATIENCE_S
        while True:
            try:
                found = await self._docker._query_json(f"exec/{self._id}/json")  # noqa: SLF001
            except _LOST:
                return None
            if not found["Running"] and found["ExitCode"] is not None:
                return int(found["ExitCode"])
            if asyncio.get_running_loop().time() > deadline_s:
                return None
            await asyncio.sleep(_LOOK_S)

    async def close(self) -> None:
        """Close the connection; the command goes on."""
        transport = self._transport()
        if transport is not None:
            # A graceful close waits for ever while the command does not read what was sent.
            transport.abort()
        try:
            await self._stream.close()
        except (AssertionError, *_LOST):
            return

    def _transport(self) -> asyncio.Transport | None:
        answer = self._stream._resp  # noqa: SLF001
        connection = answer.connection if answer is not None else None
        # Not by its class: the transports of uvloop are no subclass of asyncio's.
        return connection.transport if connection is not None else None

    async def _request(self) -> tuple[URL, bytes, bool]:
        body = json.dumps({"Detach": False, "Tty": self._is_terminal}).encode()
        return URL(f"exec/{self._id}/start"), body, self._is_terminal


def exec_config(words: tuple[str, ...], *, is_terminal: bool) -> dict[str, Any]:
    """Return the request to make a command; what it does not name is as in its container."""
    return {
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": not is_terminal,
        "Tty": is_terminal,
        "Cmd": list(words),
        "Privileged": False,
    }
