"""Asks NCCL's own watch over its ranks, RAS, what it knows of a job that hangs.

From version 2.24 on each process that uses NCCL answers at port 28028 of its loopback for the whole job, in lines of
text: which ranks are behind in their collective operations, and which do not answer. One rank is enough. The answer is
the task's own claim; it is read within bounds and shown, and decides nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from openpai.lifecycle.model import AttemptKey
from openpai.ports.shells import Shells, Stream
from openpai.protocol.errors import PaiError
from openpai.protocol.wording import cut, harmless_line

PORT: Final = 28028
PATIENCE_S: Final = 10.0
"""For all tasks that are asked: the report of the hang waits for it."""
ASKED_MAX: Final = 3
_REPLIES_S: Final = 4
"""How long NCCL waits for its other processes."""
_BYTES_MAX: Final = 256 * 1024
_LINES_MAX: Final = 4
_SHOWN_MAX: Final = 400
_SECTIONS: Final = ("Errors", "Warnings")


async def ask_ras(shells: Shells, keys: Sequence[AttemptKey], patience_s: float = PATIENCE_S) -> str:
    """Return in a few words what NCCL reports of a job, from the first of these tasks that answers; empty for none."""
    try:
        async with asyncio.timeout(patience_s):
            for key in keys[:ASKED_MAX]:
                if text := await _answer(shells, key):
                    return telling(text)
    except TimeoutError:
        pass
    return ""


async def _answer(shells: Shells, key: AttemptKey) -> str:
    try:
        stream = await shells.connect(key, PORT)
    except PaiError:
        # Nothing listens there: most tasks do not use NCCL, or an older one.
        return ""
    try:
        return await _status(stream)
    finally:
        await stream.close()


async def _status(stream: Stream) -> str:
    """Return the status that a server of RAS prints; empty for any other program."""
    rest = b""
    for request, reply in ((b"CLIENT PROTOCOL 2\n", b"SERVER PROTOCOL "), (b"TIMEOUT %d\n" % _REPLIES_S, b"OK")):
        await stream.write(request)
        line, rest = await _line(stream, rest)
        if not line.upper().startswith(reply):
            return ""
    await stream.write(b"VERBOSE STATUS\n")
    pieces, size = [rest], len(rest)
    while size < _BYTES_MAX and (piece := await stream.read()):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)[:_BYTES_MAX].decode(errors="replace")


async def _line(stream: Stream, data: bytes) -> tuple[bytes, bytes]:
    while b"\n" not in data and len(data) < _BYTES_MAX and (piece := await stream.read()):
        data += piece
    line, _, rest = data.partition(b"\n")
    return line, rest


def telling(text: str) -> str:
    """Return the lines of a status that say what is wrong: those under its titles Errors and Warnings."""
    lines = [line.strip() for line in text.splitlines()]
    found: list[str] = []
    is_inside = False
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if following and not following.strip("="):
            is_inside = line in _SECTIONS
        elif is_inside and line.strip("="):
            found.append(harmless_line(line))
    return cut("; ".join(found[:_LINES_MAX]), _SHOWN_MAX)
