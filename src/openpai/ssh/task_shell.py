"""A shell in a task that carries out one small command after another, for file transfers.

Each command is a line of shell text for a POSIX `sh` and the usual small programs (stat, ls, mv, chmod). Everything
that comes back was written by a program that is not trusted: it is bounded in size and time, and its end is a mark
that only this shell was given.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

import asyncssh

from openpai.ports.shells import STDOUT, Shell
from openpai.protocol.errors import PaiError
from openpai.protocol.wording import harmless_line

ANSWER_S: Final = 60.0
ANSWER_MAX: Final = 32 << 20
PATH_MAX: Final = 4096
_PREPARE: Final = b"LC_ALL=C && export LC_ALL; unset CDPATH; set +e\n"
_MISSING: Final = ("No such file", "nonexistent", "Not a directory")
_FORBIDDEN: Final = ("Permission denied", "Operation not permitted", "Read-only file system")
Start = Callable[[tuple[str, ...]], Awaitable[Shell]]


def quoted(path: bytes) -> bytes:
    """Return a path as one word of a shell text, which no option and no expansion changes."""
    if b"\0" in path or len(path) > PATH_MAX:
        raise asyncssh.SFTPFailure(f"a path has at most {PATH_MAX} bytes, and no NUL")
    path = path or b"."
    whole = path if path.startswith(b"/") else b"./" + path
    return b"'" + whole.replace(b"'", b"'\\''") + b"'"


def plain_word(path: bytes) -> str:
    """Return shell text in ASCII that sets `path` to any bytes."""
    quoted(path)
    whole = path if path.startswith(b"/") else b"./" + path
    return "path=$(printf '%b' '" + "".join(f"\\0{byte:o}" for byte in whole) + "'; echo x) && path=${path%x}\n"


def failure(text: bytes) -> asyncssh.SFTPError:
    """Return the error of SFTP for what a program wrote about its failure."""
    lines = text.decode(errors="replace").strip().splitlines() or ["the command failed"]
    message = harmless_line(lines[-1][:300])
    if any(each in lines[-1] for each in _MISSING):
        return asyncssh.SFTPNoSuchFile(message)
    if any(each in lines[-1] for each in _FORBIDDEN):
        return asyncssh.SFTPPermissionDenied(message)
    return asyncssh.SFTPFailure(message)


class TaskShell:
    """Runs commands in a task, one at a time."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._shell: Shell | None = None
        self._mark = secrets.token_hex(16).encode()
        self._end = re.compile(rb"\n" + self._mark + rb" ([0-9]{1,3})\n\Z")
        self._turn = asyncio.Lock()

    async def ask(self, text: bytes) -> bytes:
        """Return what a command writes; raise an error of SFTP if it fails."""
        async with self._turn:
            try:
                async with asyncio.timeout(ANSWER_S):
                    return await self._answer(text)
            except TimeoutError as error:
                await self.close()
                raise asyncssh.SFTPFailure(f"the task did not answer within {ANSWER_S:g} s") from error
            except PaiError as error:
                await self.close()
                raise asyncssh.SFTPFailure(harmless_line(error.message)) from error

    async def _answer(self, text: bytes) -> bytes:
        if self._shell is None:
            self._shell = await self._start(("sh",))
            await self._shell.write(_PREPARE)
        shell = self._shell
        await shell.write(b"(\n" + text + b"\n) </dev/null 2>&1\nprintf '\\n%s %s\\n' " + self._mark + b" $?\n")
        output = bytearray()
        while (piece := await shell.read()) is not None:
            if piece.stream != STDOUT:
                continue
            output += piece.data
            if (found := self._end.search(output, max(len(output) - 64, 0))) is not None:
                answer = bytes(output[: found.start()])
                if int(found[1]):
                    raise failure(answer)
                return answer
            if len(output) > ANSWER_MAX:
                await self.close()
                raise asyncssh.SFTPFailure(f"the answer of the task has more than {ANSWER_MAX >> 20} MiB")
        self._shell = None
        await shell.close()
        raise asyncssh.SFTPConnectionLost("the task has ended, or has no shell")

    async def close(self) -> None:
        """End the shell. May be repeated."""
        shell, self._shell = self._shell, None
        if shell is not None:
            await shell.close()
