"""The directory of one storage that a user may see: paths are checked, and blocking drivers run in threads.

A path is relative, cannot lead upwards, and contains nothing that another system would read differently.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Callable
from itertools import islice
from typing import Any, Final, TypeVar

from openpai.ports.clock import Clock
from openpai.ports.storages import Entry
from openpai.protocol.errors import InvalidParameters, Refused
from openpai.storage.connections import Opened
from openpai.storage.driver import PART_PREFIX, Driver, Names, Writer

T = TypeVar("T")

PIECE_BYTES: Final = 1 << 20
LISTED_MAX: Final = 100_000
"""How many entries of one directory are listed at most; each takes memory here and in the client."""
ABANDONED_AFTER_MS: Final = 24 * 3600 * 1000
"""After this long without a write an incomplete file counts as left by a server that was killed."""

PATH_MAX: Final = 2048
NAME_MAX: Final = 255
# A backslash separates directories on SMB, so that `a\..\..` would lead out there and nowhere else.
_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")


class DrivenArea:
    """`ports.storages.Area` over a driver."""

    def __init__(self, opened: Opened, driver: Driver, clock: Clock) -> None:
        self._opened = opened
        self._driver = driver
        self._workers = opened.workers
        self._errors = opened.errors
        self._clock = clock

    async def list(self, path: str) -> tuple[Entry, ...]:
        names = parts(path)
        return await self._ask(path, self._list, names)

    async def entry(self, path: str) -> Entry:
        names = parts(path)
        return await self._ask(path, self._driver.entry, names) if names else Entry("", is_directory=True)

    async def read(self, path: str, start: int, end: int) -> AsyncIterator[bytes]:
        reader = await self._ask(path, self._driver.reader, file_parts(path))
        try:
            while start < end:
                piece = await self._run(path, reader.read, start, min(PIECE_BYTES, end - start))
                if not piece:
                    return
                start += len(piece)
                yield piece
        finally:
            with contextlib.suppress(Exception):
                await self._workers.run(reader.close)

    async def write(self, path: str, content: AsyncIterator[bytes]) -> int:
        writer = await self._ask(path, self._driver.writer, file_parts(path))
        try:
            size = await self._copy(path, content, writer)
            await self._run(path, writer.commit)
        except BaseException:
            with contextlib.suppress(Exception):
                await self._workers.run(writer.discard)
            raise
        return size

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        names = file_parts(path)
        await self._run(path, lambda: self._driver.remove(names, recursive=recursive))

    async def _copy(self, path: str, content: AsyncIterator[bytes], writer: Writer) -> int:
        size = 0
        waiting = bytearray()
        async for piece in content:
            waiting += piece
            size += len(piece)
            if len(waiting) >= PIECE_BYTES:
                # One call per network packet would cost a thread switch for each.
                await self._run(path, writer.write, bytes(waiting))
                waiting.clear()
        if waiting:
            await self._run(path, writer.write, bytes(waiting))
        return size

    def _list(self, names: Names) -> tuple[Entry, ...]:
        try:
            found = tuple(islice(self._driver.list(names), LISTED_MAX + 1))
        except FileNotFoundError:
            if names:
                raise
            return ()
        if len(found) > LISTED_MAX:
            message = f"{'/'.join(names) or '/'} holds more than {LISTED_MAX:,} files and directories, too many to list"
            raise InvalidParameters(message, "ask for a file in it by name, or for a directory below it")
        for entry in found:
            if entry.name.startswith(PART_PREFIX) and self._is_abandoned(entry):
                with contextlib.suppress(Exception):
                    self._driver.remove((*names, entry.name), recursive=False)
        # A name that is not text can be neither shown nor requested.
        shown = (entry for entry in found if not entry.name.startswith(PART_PREFIX) and is_text(entry.name))
        return tuple(sorted(shown, key=lambda entry: entry.name))

    def _is_abandoned(self, entry: Entry) -> bool:
        if entry.is_directory or entry.modified_at_ms is None or self._opened.storage.is_read_only:
            return False
        return entry.modified_at_ms < self._clock.now_ms() - ABANDONED_AFTER_MS

    async def _ask(self, path: str, work: Callable[..., T], *given: Any) -> T:
        try:
            return await self._workers.ask(work, *given)
        except Exception as error:
            raise self._errors.error(error, path) from None

    async def _run(self, path: str, work: Callable[..., T], *given: Any) -> T:
        try:
            return await self._workers.run(work, *given)
        except Exception as error:
            raise self._errors.error(error, path) from None


def parts(path: str) -> tuple[str, ...]:
    """Return the names in a path, none for the top; raise InvalidParametersError for one that leads out."""
    if _UNFIT.search(path):
        raise _bad(path, "it holds a backslash, a control character or text that is not valid Unicode")
    found = tuple(part for part in path.split("/") if part not in ("", "."))
    if ".." in found:
        raise _bad(path, "'..' is not allowed in it")
    if any(part.startswith(PART_PREFIX) for part in found):
        raise _bad(path, f"names that begin with {PART_PREFIX} are those of uploads that are not complete")
    if len(path.encode()) > PATH_MAX or any(len(part.encode()) > NAME_MAX for part in found):
        raise _bad(path[:40] + "...", f"it is longer than {PATH_MAX} bytes, or a name in it longer than {NAME_MAX}")
    return found


def is_text(name: str) -> bool:
    """Return whether a name is text: names in local directories may be any bytes."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def file_parts(path: str) -> tuple[str, ...]:
    """Return the names in a path; raise InvalidParametersError for the top, too."""
    found = parts(path)
    if not found:
        raise _bad(path, "it names no file")
    return found


def folder_of(user: str) -> str:
    """Return the name of a user's own folder; raise ForbiddenUserError for a name that cannot be a folder's."""
    if parts(user) != (user,):
        raise Refused("ForbiddenUserError", f"the user name {user!r} cannot be the name of a folder")
    return user


def _bad(path: str, why: str) -> Refused:
    return InvalidParameters(f"{path!r} is not a path in a storage: {why}", "write it like data/train/images.tar")
