"""SFTP and scp into a running task: each request becomes a command in the task, with exactly the task's rights.

No request touches a file of the server. Every method of asyncssh's own file server, which would, is replaced here; a
test holds that.
"""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
import secrets
import stat as modes
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final, NoReturn, Self

import asyncssh
from asyncssh import (
    FILEXFER_TYPE_DIRECTORY,
    FXF_APPEND,
    FXF_CREAT,
    FXF_READ,
    FXF_WRITE,
    SFTPAttrs,
    SFTPName,
    SFTPVFSAttrs,
)

from openpai.ports.shells import Shell
from openpai.protocol.errors import PaiError
from openpai.protocol.wording import harmless_line
from openpai.ssh.file_texts import FORMAT, MODE, VFS, attributes, creating, free, listing, vfs_attributes
from openpai.ssh.model import REFUSED
from openpai.ssh.recording import Recorder
from openpai.ssh.rights import Reached
from openpai.ssh.sessions import Open, Opening, start
from openpai.ssh.task_shell import TaskShell, quoted
from openpai.ssh.task_streams import Reading, Writing

UNSENT_MAX: Final = 4 << 20
"""How many bytes of answers may wait for a client that does not read them."""
HANDLES_MAX: Final = 64


class _File:
    """An open file of a task."""

    def __init__(self, path: bytes, reading: Reading, writing: Writing | None) -> None:
        self.path = path
        self.reading = reading
        self.writing = writing

    async def settle(self) -> None:
        """Wait until everything is written."""
        if self.writing is not None:
            await self.writing.finish()

    async def close(self) -> None:
        """End its commands without waiting."""
        await self.reading.close()
        if self.writing is not None:
            await self.writing.close()


class TaskFileServer(asyncssh.SFTPServer):
    """The files of a task, as an SFTP client sees them."""

    def __init__(self, connection: Opening, chan: Any) -> None:
        # Not the initialisation of the base class, which is about files of this machine.
        self._opening = connection
        self._chan = chan
        self._session = Open()
        self._stack = contextlib.ExitStack()
        self._reached: Reached | None = None
        self._record: Recorder | None = None
        self._task = TaskShell(self._start)
        self._files: set[_File] = set()
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    def factory(cls, connection: Opening) -> Callable[[Any], Coroutine[Any, Any, Self]]:
        """Return what makes the file server of a channel."""

        async def make(chan: Any) -> Self:
            server = cls(connection, chan)
            await server._begin()
            return server

        return make

    async def _begin(self) -> None:
        try:
            self._stack.enter_context(self._opening.opened(self._session))
            self._reached = await self._opening.reach()
            self._record = self._opening.record(self._reached, {"command": "(file transfer)"})
            await self._record.begin()
            self._watching = asyncio.create_task(self._watch())
        except PaiError as error:
            self._stack.close()
            self._end(error.sentence)
        except BaseException:
            self._stack.close()
            raise

    async def _watch(self) -> None:
        await self._session.over.wait()
        self._end(self._session.message)
        # asyncssh does not call `exit` where the connection is lost.
        self._watching = None
        await self.exit()

    def _end(self, message: str) -> None:
        if message:
            with contextlib.suppress(OSError, asyncssh.Error):
                self._chan.write(b"pai: " + harmless_line(message).encode() + b"\n", asyncssh.EXTENDED_DATA_STDERR)
        with contextlib.suppress(OSError, asyncssh.Error):
            self._chan.exit(REFUSED)

    async def exit(self) -> None:
        """End everything that the client has open."""
        if self._watching is not None:
            self._watching.cancel()
        for file in tuple(self._files):
            await file.close()
        await self._task.close()
        self._stack.close()
        record, self._record = self._record, None
        if record is not None:
            await record.end(self._session.ended_by, None)
        # asyncssh closes the channel without an exit code, and the client takes that for a failure of its copy.
        with contextlib.suppress(OSError, asyncssh.Error):
            self._chan.exit(0)

    async def _start(self, words: tuple[str, ...]) -> Shell:
        if self._reached is None or self._session.over.is_set():
            raise asyncssh.SFTPConnectionLost("the session has ended")
        return await start(self._opening, self._reached, words)

    async def _ask(self, text: bytes) -> bytes:
        self._session.touch()
        return await self._task.ask(text)

    # Paths are those of the task: relative ones begin in its working directory.

    def map_path(self, path: bytes) -> bytes:
        """Return a path as it is."""
        return path

    def reverse_map_path(self, path: bytes) -> bytes:
        """Return a path as it is."""
        return path

    def format_user(self, uid: int | None) -> str:
        """Return a number: the names of this machine's users are not those of the task."""
        return "" if uid is None else str(uid)

    def format_group(self, gid: int | None) -> str:
        """Return a number."""
        return "" if gid is None else str(gid)

    async def stat(self, path: bytes) -> SFTPAttrs:
        """Return what a path leads to."""
        return await self._stat(path, b"-L ")

    async def lstat(self, path: bytes) -> SFTPAttrs:
        """Return what a path is, without following it."""
        return await self._stat(path, b"")

    async def fstat(self, file_obj: object) -> SFTPAttrs:
        """Return what an open file is."""
        file = self._file(file_obj)
        await file.settle()
        return await self._stat(file.path, b"-L ")

    async def _stat(self, path: bytes, option: bytes) -> SFTPAttrs:
        answer = await self._ask(b"stat " + option + b"-c '" + FORMAT + b"' -- " + quoted(path))
        return attributes(answer.split())

    async def scandir(self, path: bytes) -> AsyncIterator[SFTPName]:
        """Yield the names in a directory."""
        mark = secrets.token_hex(16).encode()
        answer = await self._ask(listing(path, mark))
        for line in (b"\n" + answer.removesuffix(b"\n")).split(b"\n" + mark + b" ")[1:]:
            fields = line.split(b" ", 6)
            if len(fields) == 7:
                name = fields[6].removeprefix(b"./") if fields[6] != b"." else b"."
                yield SFTPName(name, b"", attributes(fields[:6]))
        yield SFTPName(b"..", b"", SFTPAttrs(type=FILEXFER_TYPE_DIRECTORY, permissions=modes.S_IFDIR | 0o755))

    async def realpath(self, path: bytes) -> bytes:
        """Return a path from the root, without links; also of a file that does not exist yet."""
        word = quoted(path)
        answer = await self._ask(b"printf '%s\\n' \"$PWD\"; readlink -f -- " + word + b" 2>/dev/null; true")
        work, _, found = answer.partition(b"\n")
        whole = posixpath.normpath(posixpath.join(work, path))
        return found.removesuffix(b"\n") or b"/" + whole.lstrip(b"/")

    async def readlink(self, path: bytes) -> bytes:
        """Return where a symbolic link leads."""
        return (await self._ask(b"readlink -- " + quoted(path))).removesuffix(b"\n")

    async def remove(self, path: bytes) -> None:
        """Remove a file."""
        word = quoted(path)
        await self._ask(b"if [ -d " + word + b" ] && [ ! -L " + word + b" ]; then echo Is a directory; exit 1; fi\n"
                        b"rm -- " + word)  # fmt: skip

    async def mkdir(self, path: bytes, attrs: SFTPAttrs) -> None:
        """Create a directory."""
        mode = 0o777 if attrs.permissions is None else attrs.permissions & MODE
        option = b"" if attrs.permissions is None else b"-m %o " % mode
        await self._ask(b"mkdir " + option + b"-- " + quoted(path))

    async def rmdir(self, path: bytes) -> None:
        """Remove an empty directory."""
        await self._ask(b"rmdir -- " + quoted(path))

    async def rename(self, oldpath: bytes, newpath: bytes) -> None:
        """Give a file another name that is free."""
        old, new = quoted(oldpath), quoted(newpath)
        await self._ask(free(new) + b"mv -- " + old + b" " + new)

    async def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        """Give a file another name, and replace the file that has it."""
        old, new = quoted(oldpath), quoted(newpath)
        await self._ask(
            b"if [ -L " + new + b" ]; then rm -f -- " + new + b"; fi\n"
            b"if [ -d " + new + b" ]; then echo Is a directory; exit 1; fi\nmv -f -- " + old + b" " + new
        )

    async def symlink(self, oldpath: bytes, newpath: bytes) -> None:
        """Create a symbolic link `newpath` that leads to `oldpath`, whatever that is."""
        new = quoted(newpath)
        target = b"'" + oldpath.replace(b"'", b"'\\''") + b"'"
        quoted(oldpath)
        await self._ask(free(new) + b"ln -s -- " + target + b" " + new)

    async def link(self, oldpath: bytes, newpath: bytes) -> None:
        """Give a file a second name."""
        old, new = quoted(oldpath), quoted(newpath)
        await self._ask(free(new) + b"ln -- " + old + b" " + new)

    async def setstat(self, path: bytes, attrs: SFTPAttrs) -> None:
        """Change size, owner, mode and times of a file."""
        await self._change(quoted(path), attrs, follows=True)

    async def lsetstat(self, path: bytes, attrs: SFTPAttrs) -> None:
        """Change owner and times of a file, without following a link."""
        await self._change(quoted(path), attrs, follows=False)

    async def fsetstat(self, file_obj: object, attrs: SFTPAttrs) -> None:
        """Change an open file."""
        file = self._file(file_obj)
        await file.settle()
        await self._change(quoted(file.path), attrs, follows=True)

    async def _change(self, word: bytes, attrs: SFTPAttrs, *, follows: bool) -> None:
        option = b"" if follows else b"-h "
        lines = []
        if attrs.size is not None and follows:
            lines.append(b"truncate -s %d -- %b" % (attrs.size, word) if attrs.size else b": >" + word)
        if attrs.uid is not None and attrs.gid is not None:
            lines.append(b"chown %b%d:%d -- %b" % (option, attrs.uid, attrs.gid, word))
        if attrs.permissions is not None and follows:
            lines.append(b"chmod %o -- %b" % (attrs.permissions & MODE, word))
        if attrs.atime is not None and attrs.mtime is not None:
            for which, time in ((b"-a", attrs.atime), (b"-m", attrs.mtime)):
                lines.append(b"touch -c %b%b -d @%d -- %b" % (option, which, time, word))
        if lines:
            await self._ask(b" &&\n".join(lines))

    async def statvfs(self, path: bytes) -> SFTPVFSAttrs:
        """Return how full a file system is."""
        answer = await self._ask(b"stat -f -c '" + VFS + b"' -- " + quoted(path))
        return vfs_attributes(answer)

    async def fstatvfs(self, file_obj: object) -> SFTPVFSAttrs:
        """Return how full the file system of an open file is."""
        return await self.statvfs(self._file(file_obj).path)

    async def open(self, path: bytes, pflags: int, attrs: SFTPAttrs) -> object:
        """Open a file to read or to write it."""
        if len(self._files) >= HANDLES_MAX:
            raise asyncssh.SFTPFailure(f"{HANDLES_MAX} files are open already")
        word = quoted(path)
        lines = [b"if [ -e %b ] && [ ! -f %b ]; then echo %b; exit 1; fi" % (word, word, b"this is not a regular file")]
        if pflags & FXF_READ:
            lines.append(b": <%b || exit 1" % word if not pflags & FXF_CREAT else b":")
        if pflags & FXF_WRITE:
            lines += creating(word, pflags, attrs)
        lines.append(b"stat -L -c %%s -- %b" % word)
        answer = await self._ask(b"\n".join(lines))
        size = int(answer) if answer.strip().isdigit() else 0
        writing = None
        if pflags & FXF_WRITE:
            writing = Writing(self._start, path, size, is_appending=bool(pflags & FXF_APPEND))
        file = _File(path, Reading(self._start, path), writing)
        self._files.add(file)
        return file

    async def read(self, file_obj: object, offset: int, size: int) -> bytes:
        """Return bytes of an open file."""
        file = self._file(file_obj)
        await file.settle()
        await self._until_sent()
        with _as_failures():
            return await file.reading.read(offset, size)

    async def write(self, file_obj: object, offset: int, data: bytes) -> int:
        """Write bytes into an open file."""
        file = self._file(file_obj)
        self._session.touch()
        if file.writing is None:
            raise asyncssh.SFTPPermissionDenied("the file was not opened for writing")
        with _as_failures():
            await file.writing.write(offset, data)
        return len(data)

    async def fsync(self, file_obj: object) -> None:
        """Wait until an open file is on the disk."""
        file = self._file(file_obj)
        await file.settle()
        await self._ask(b"sync -- " + quoted(file.path) + b" 2>/dev/null || sync")

    async def close(self, file_obj: object) -> None:
        """Close a file; raise an error of SFTP if not everything could be written."""
        file = self._file(file_obj)
        self._files.discard(file)
        try:
            with _as_failures():
                await file.settle()
        finally:
            await file.close()

    async def open56(self, path: bytes, desired_access: int, flags: int, attrs: SFTPAttrs) -> NoReturn:
        """Refuse a request of a later protocol than the one that is spoken."""
        raise asyncssh.SFTPOpUnsupported("this is SFTP version 3")

    async def lock(self, file_obj: object, offset: int, length: int, flags: int) -> NoReturn:
        """Refuse to lock."""
        raise asyncssh.SFTPOpUnsupported("files are not locked")

    async def unlock(self, file_obj: object, offset: int, length: int) -> NoReturn:
        """Refuse to unlock."""
        raise asyncssh.SFTPOpUnsupported("files are not locked")

    def _file(self, file_obj: object) -> _File:
        if not isinstance(file_obj, _File):
            raise asyncssh.SFTPInvalidHandle("this is not an open file")
        return file_obj

    async def _until_sent(self) -> None:
        self._session.touch()
        # asyncssh gives its file server no event for this.
        while self._chan.get_write_buffer_size() > UNSENT_MAX and not self._chan.is_closing():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@contextlib.contextmanager
def _as_failures() -> Any:
    """Turn errors of the platform into errors of SFTP."""
    try:
        yield
    except PaiError as error:
        raise asyncssh.SFTPFailure(harmless_line(error.message)) from error
