"""Finds where the processes of a task listen, so that a forwarded connection ends in that task.

Tasks may share the network of the machine, so a port alone may be a database or another user's program. A listening
socket is known by its inode, which stays the same while it listens: if the sockets that could have accepted a
connection belonged to the task before and after it was made, one of them has.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from openpai.backends.host.streams import SocketStream, connect
from openpai.lifecycle.model import AttemptKey
from openpai.ports.shells import NothingListens, is_of_others
from openpai.protocol.errors import Unavailable

_OWN_NETWORK: Final = "/proc/self/net"
_TABLES: Final = ("tcp", "tcp6")
_LISTENING: Final = "0A"
_LOCAL, _STATE, _INODE = 1, 3, 9
"""Positions of the fields in a line of /proc/net/tcp."""
_ANY_4: Final = "0.0.0.0"  # noqa: S104  # read, not bound
_ANY_6: Final = "::"
_LOOPBACK: Final = {_ANY_4: "127.0.0.1", _ANY_6: "::1"}
_MAPPED: Final = "::ffff:"
_LINK_LOCAL: Final = "fe80:"


class Listener(NamedTuple):
    """A listening socket: its address, and the inode that identifies it."""

    address: str
    inode: int


def listeners(port: int, proc: str = _OWN_NETWORK) -> list[Listener]:
    """Return the sockets that listen on a port of this machine."""
    found = []
    for table in _TABLES:
        with contextlib.suppress(OSError):
            for line in Path(f"{proc}/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                address, _, number = fields[_LOCAL].partition(":")
                if fields[_STATE] == _LISTENING and int(number, 16) == port:
                    found.append(Listener(_address(address), int(fields[_INODE])))
    return found


def reachable(listening: Iterable[Listener], own: Collection[int]) -> Iterator[tuple[str, frozenset[int]]]:
    """Yield addresses at which only sockets in `own` accept connections, loopback first, each with these sockets."""
    everywhere = list(listening)
    targets = {_LOOPBACK.get(each.address, each.address) for each in everywhere if each.inode in own}
    for target in sorted(targets, key=lambda each: (each not in _LOOPBACK.values(), each)):
        # The system prefers a socket with this very address to one with any, and one of IPv4 to one of both.
        places = (target, _ANY_4, _ANY_6) if "." in target else (target, _ANY_6)
        accepting = next(filter(None, (_inodes_at(place, everywhere) for place in places)), frozenset())
        if accepting <= set(own) and not target.startswith(_LINK_LOCAL):
            yield target, accepting


def inodes_of(pids: Iterable[int], wanted: Collection[int]) -> frozenset[int]:
    """Return which of these sockets processes have open."""
    names = {f"socket:[{inode}]": inode for inode in wanted}
    found: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for file in os.scandir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    inode = names.get(os.readlink(file.path))  # noqa: PTH115  # a task may have many thousands
                    if inode is not None:
                        found.add(inode)
        if len(found) == len(names):
            break
    return frozenset(found)


async def connect_to_task(
    key: AttemptKey,
    port: int,
    pids: Callable[[], Iterable[int]],
    *,
    network: str = _OWN_NETWORK,
    reach: Callable[[str, int], Awaitable[SocketStream]] = connect,
) -> SocketStream:
    """Connect to a port that a process of the task listens on; raise Unavailable if none does.

    `network` is the directory in /proc of the network that the task is in, and `reach` connects there.
    """
    error: Unavailable = NothingListens(port)
    everywhere, own = await asyncio.to_thread(_look, port, pids, network)
    if everywhere and not own:
        raise is_of_others(key, port)
    for address, accepting in reachable(everywhere, own):
        try:
            stream = await reach(address, port)
        except Unavailable:
            continue
        # Another program may have taken the port between the look and the connection.
        again = dict(reachable(*await asyncio.to_thread(_look, port, pids, network)))
        if again.get(address) == accepting:
            return stream
        await stream.close()
        error = is_of_others(key, port)
    raise error


def _look(port: int, pids: Callable[[], Iterable[int]], network: str) -> tuple[list[Listener], frozenset[int]]:
    found = listeners(port, network)
    return found, inodes_of(pids(), {each.inode for each in found}) if found else frozenset()


def _inodes_at(address: str, everywhere: Iterable[Listener]) -> frozenset[int]:
    return frozenset(each.inode for each in everywhere if each.address == address)


def _address(text: str) -> str:
    """Return an address as the kernel writes it, in words of its own byte order."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    if len(words) == 1:
        return socket.inet_ntop(socket.AF_INET, packed)
    return socket.inet_ntop(socket.AF_INET6, packed).removeprefix(_MAPPED)
