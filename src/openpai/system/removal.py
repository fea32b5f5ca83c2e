"""Removes hostile directory trees: of any depth and width, also while they change.

The tree is walked by open directories and single names, so no path is ever too long, and a name that is replaced by a
link does no harm: a link is removed and never followed. At most `LEVELS_MAX` directories are open at a time. A
directory below that depth is moved up to the top of the tree, and removed from there. Names are read in batches, so
memory does not grow with the number of entries.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

LEVELS_MAX: Final = 32
BATCH: Final = 1000
KEPT_MAX: Final = 1000
"""The number of failures in one directory after which it is skipped."""
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLACE: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_IS_DIRECTORY: Final = frozenset({errno.EISDIR, errno.EPERM})
_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_FREES_NOTHING: Final = frozenset({errno.ENOENT})


class NotRemoved(OSError):
    """A part of a tree could not be removed. `errno` and `strerror` are those of the first failure."""


@dataclass(slots=True)
class _Level:
    """An open directory whose entries are being removed, with its name in the one above."""

    name: str
    file: int
    names: list[str] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)


class TreeRemoval:
    """The removal of one tree, in slices, so that a large one blocks nothing else.

    `opens_closed` makes unreadable directories readable for their owner; only for trees that are not needed any more.
    """

    def __init__(self, name: str, *, dir_fd: int | None = None, opens_closed: bool = False) -> None:
        self._name = name
        self._above = dir_fd
        self._opens_closed = opens_closed
        self._levels: list[_Level] = []
        self._complaint: OSError | None = None
        self._moved = 0
        self._prefix = f".removed-{secrets.token_hex(8)}-"

    def remove_some(self, entries_max: int) -> bool:
        """Remove up to `entries_max` entries; return whether the tree is gone.

        Raise NotRemoved when nothing of the rest can be removed. A missing tree counts as removed.
        """
        try:
            if not self._levels and not self._begin():
                return True
            for _ in range(entries_max):
                if self._step():
                    return True
        except BaseException:
            self.close()
            raise
        return False

    def close(self) -> None:
        """Abort the removal, if it has not ended."""
        while self._levels:
            os.close(self._levels.pop().file)

    def _begin(self) -> bool:
        """Open the top; return whether there is anything below it."""
        try:
            os.unlink(self._name, dir_fd=self._above)  # relative to an open directory
        except OSError as error:
            if error.errno in _FREES_NOTHING:
                return False
            if error.errno not in _IS_DIRECTORY:
                raise
        else:
            return False
        file = self._opened(self._name, self._above)
        self._levels.append(_Level(self._name, file))
        return True

    def _step(self) -> bool:
        """Remove one entry, or leave or enter a directory; return whether the top itself is gone."""
        level = self._levels[-1]
        if not level.names:
            try:
                level.names = list(islice(self._names_in(level), BATCH))
            except OSError as error:
                self._keep(level, "", error)
            if not level.names:
                return self._leave(level)
        name = level.names.pop()
        try:
            self._remove(level, name)
        except OSError as error:
            if error.errno not in _GONE:
                self._keep(level, name, error)
        return False

    def _names_in(self, level: _Level) -> Iterator[str]:
        if len(level.kept) >= KEPT_MAX:
            return
        # Names are arbitrary bytes; those that are not text are passed as surrogates.
        with os.scandir(level.file) as found:
            for entry in found:
                if entry.name not in level.kept:
                    yield entry.name

    def _remove(self, level: _Level, name: str) -> None:
        try:
            os.unlink(name, dir_fd=level.file)
            return
        except OSError as error:
            if error.errno not in _IS_DIRECTORY:
                raise
            complaint = error
        try:
            # Most directories in a wide tree are empty, and need not be opened.
            os.rmdir(name, dir_fd=level.file)
        except NotADirectoryError:
            # An immutable file raises the same error as a directory.
            raise complaint from None
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EACCES):
                raise
            self._enter(level, name)

    def _enter(self, level: _Level, name: str) -> None:
        if len(self._levels) < LEVELS_MAX:
            self._levels.append(_Level(name, self._opened(name, level.file)))
            return
        top = self._levels[0]
        self._moved += 1
        goal = f"{self._prefix}{self._moved}"
        try:
            os.rename(name, goal, src_dir_fd=level.file, dst_dir_fd=top.file)
        except PermissionError:
            if not self._opens_closed:
                raise
            # Moving a directory changes its entry `..`, so it must be writable.
            os.close(self._opened(name, level.file))
            os.rename(name, goal, src_dir_fd=level.file, dst_dir_fd=top.file)
        # Remove it next, so that a deep tree costs no search through a wide one.
        if len(top.names) < 2 * BATCH:
            top.names.append(goal)

    def _leave(self, level: _Level) -> bool:
        self._levels.pop()
        os.close(level.file)
        if not self._levels:
            return self._end()
        above = self._levels[-1]
        if level.kept:
            above.kept.add(level.name)
            return False
        try:
            os.rmdir(level.name, dir_fd=above.file)
        except OSError as error:
            if error.errno not in _GONE:
                self._keep(above, level.name, error)
        return False

    def _end(self) -> bool:
        try:
            os.rmdir(self._name, dir_fd=self._above)
        except FileNotFoundError:
            return True
        except OSError as error:
            first = self._complaint or error
            raise NotRemoved(first.errno, first.strerror or str(first), first.filename or self._name) from error
        return True

    def _keep(self, level: _Level, name: str, error: OSError) -> None:
        level.kept.add(name)
        self._complaint = self._complaint or error

    def _opened(self, name: str, above: int | None) -> int:
        """Return an open directory, after making it accessible where permitted."""
        if not self._opens_closed:
            return os.open(name, _DIRECTORY, dir_fd=above)
        place = os.open(name, _PLACE, dir_fd=above)
        try:
            mode = stat.S_IMODE(os.fstat(place).st_mode)
            if mode & stat.S_IRWXU != stat.S_IRWXU:
                with contextlib.suppress(OSError):
                    # By the open directory and not by its name, which may lead elsewhere now.
                    os.chmod(f"/proc/self/fd/{place}", mode | stat.S_IRWXU)  # noqa: PTH101
            return os.open(".", _DIRECTORY, dir_fd=place)
        finally:
            os.close(place)


def remove_tree(name: str, *, dir_fd: int | None = None, opens_closed: bool = False) -> None:
    """Remove a file, a link (not its target) or a directory with its content.

    Raise NotRemoved if something cannot be removed, after the rest was. A missing path is no error.
    """
    removal = TreeRemoval(name, dir_fd=dir_fd, opens_closed=opens_closed)
    try:
        while not removal.remove_some(1 << 30):
            pass
    finally:
        removal.close()
