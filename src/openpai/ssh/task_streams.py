"""The bytes of one file of a task: commands in the task that write them out, and that take them in.

Clients read and write from the beginning to the end, for which one command is enough. A jump to another place starts
another command there.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

import asyncssh

from openpai.ports.shells import STDOUT, Shell
from openpai.ssh.task_shell import Start, failure, plain_word

READ_MAX: Final = 256 * 1024
_ERRORS_MAX: Final = 4096
_BLOCK_MAX: Final = 65536
# `tail` begins to count at 1; GNU's and BusyBox's jump there in a regular file.
_READ: Final = 'if [ "$1" = 0 ]; then exec cat <"$path"; fi\nexec tail -c +"$(($1 + 1))" <"$path"'
_APPEND: Final = 'exec cat >>"$path"'
_WRITE: Final = 'exec dd of="$path" conv=notrunc bs="$2" seek="$(($1 / $2))" 2>/dev/null'


class Reading:
    """A command that writes a file out from some offset."""

    def __init__(self, start: Start, path: bytes) -> None:
        self._start = start
        self._path = path
        self._shell: Shell | None = None
        self._offset = 0
        self._kept = b""

    async def read(self, offset: int, size: int) -> bytes:
        """Return bytes at an offset, fewer only at the end of the file."""
        if self._shell is None or offset != self._offset:
            await self.close()
            self._shell = await self._start(("sh", "-c", plain_word(self._path) + _READ, "pai-read", str(offset)))
            await self._shell.close_stdin()
            self._offset = offset
        size = min(size, READ_MAX)
        errors = b""
        while len(self._kept) < size and (piece := await self._shell.read()) is not None:
            if piece.stream == STDOUT:
                self._kept += piece.data
            elif len(errors) < _ERRORS_MAX:
                errors += piece.data
        data, self._kept = self._kept[:size], self._kept[size:]
        if not data and self._shell.exit_code:
            raise failure(errors)
        self._offset += len(data)
        return data

    async def close(self) -> None:
        """End the command."""
        shell, self._shell, self._kept = self._shell, None, b""
        if shell is not None:
            await shell.close()


class Writing:
    """A command that takes bytes of a file in, from some offset on."""

    def __init__(self, start: Start, path: bytes, end: int, *, is_appending: bool) -> None:
        """`end` is the size of the file now."""
        self._start = start
        self._path = path
        self._end = end
        self._is_appending = is_appending
        self._shell: Shell | None = None
        self._offset = 0
        self._errors = b""
        self._listening: asyncio.Task[None] | None = None

    async def write(self, offset: int, data: bytes) -> None:
        """Write bytes at an offset; raise an error of SFTP if the command has failed."""
        if self._is_appending:
            offset = self._offset = self._end
        if self._shell is None or offset != self._offset:
            await self.finish()
            await self._begin(offset)
        if self._listening is not None and self._listening.done():
            await self.finish()
            raise asyncssh.SFTPFailure("the file cannot be written")
        assert self._shell is not None  # noqa: S101  # `_begin` has set it
        await self._shell.write(data)
        self._offset += len(data)
        self._end = max(self._end, self._offset)

    async def _begin(self, offset: int) -> None:
        text, words = _APPEND, []
        if offset != self._end:
            block = min(offset & -offset, _BLOCK_MAX) or _BLOCK_MAX
            text, words = _WRITE, [str(offset), str(block)]
        self._shell = await self._start(("sh", "-c", plain_word(self._path) + text, "pai-write", *words))
        self._offset, self._errors = offset, b""
        self._listening = asyncio.create_task(self._listen(self._shell))

    async def _listen(self, shell: Shell) -> None:
        while (piece := await shell.read()) is not None:
            if len(self._errors) < _ERRORS_MAX:
                self._errors += piece.data

    async def finish(self) -> None:
        """Wait until everything is written; raise an error of SFTP if that failed."""
        shell, listening = self._shell, self._listening
        self._shell = self._listening = None
        if shell is None or listening is None:
            return
        try:
            await shell.close_stdin()
            await listening
            if shell.exit_code:
                raise failure(self._errors)
        finally:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening
            await shell.close()

    async def close(self) -> None:
        """End the command without waiting."""
        shell, listening = self._shell, self._listening
        self._shell = self._listening = None
        if listening is not None:
            listening.cancel()
        if shell is not None:
            await shell.close()
