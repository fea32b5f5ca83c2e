"""TCP connections to ports of tasks on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
import threading
from typing import Final

from openpai.ports.shells import NothingListens

_CONNECT_S: Final = 10.0
_PIECE: Final = 64 * 1024
_GONE: Final = (ConnectionError, OSError)
_NETWORK: Final = 0x40000000
_LOOPBACK: Final = "127.0.0.1"


class SocketStream:
    """A connection over a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """Wait for bytes and return them; none at the end, also when the other side resets the connection."""
        try:
            return await self._reader.read(_PIECE)
        except _GONE:
            return b""

    async def write(self, data: bytes) -> None:
        """Send bytes; what the other side no longer takes is lost."""
        with contextlib.suppress(*_GONE):
            self._writer.write(data)
            await self._writer.drain()

    async def close_write(self) -> None:
        """Say that no more bytes follow."""
        with contextlib.suppress(*_GONE):
            self._writer.write_eof()

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        with contextlib.suppress(*_GONE):
            await self._writer.wait_closed()


async def connect(address: str, port: int) -> SocketStream:
    """Connect to a port; raise Unavailable if nothing listens there."""
    try:
        async with asyncio.timeout(_CONNECT_S):
            return SocketStream(*await asyncio.open_connection(address, port))
    except (OSError, TimeoutError) as error:
        raise NothingListens(port) from error


async def connect_inside(pid: int, port: int, address: str = _LOOPBACK) -> SocketStream:
    """Connect to a port in the network namespace of a process; raise Unavailable if nothing listens there.

    Raise OSError if this server may not enter it, or the process is gone.
    """
    found: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()
    # A thread that has entered another namespace must do nothing else, so it is no thread of a pool.
    threading.Thread(target=_connect_in, args=(pid, address, port, found), daemon=True).start()
    try:
        return SocketStream(*await asyncio.open_connection(sock=await found))
    except (ConnectionError, TimeoutError) as error:
        raise NothingListens(port) from error


def _connect_in(pid: int, address: str, port: int, found: asyncio.Future[socket.socket]) -> None:
    made: socket.socket | OSError
    try:
        namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(namespace, _NETWORK) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
        finally:
            os.close(namespace)
        made = socket.create_connection((address, port), timeout=_CONNECT_S)
        made.setblocking(False)
    except OSError as error:
        made = error
    found.get_loop().call_soon_threadsafe(_settle, found, made)


def _settle(found: asyncio.Future[socket.socket], made: socket.socket | OSError) -> None:
    if found.done():
        if isinstance(made, socket.socket):
            made.close()
    elif isinstance(made, socket.socket):
        found.set_result(made)
    else:
        found.set_exception(made)
