"""The size of a directory, safe against hostile content: no link is followed, and the work is bounded.

The tree is walked with one open directory: down by names, and up by `..`, which is checked to be the parent.
"""

from __future__ import annotations

import os
import stat
from itertools import islice
from typing import Final, NamedTuple

ENTRIES_MAX: Final = 1_000_000
ENTRY_BYTES: Final = 256
"""Bytes that an entry counts besides its blocks, so that a million empty files count too."""
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _Level(NamedTuple):
    place: tuple[int, int]
    directories: list[str]


class _Walk:
    def __init__(self, most: int) -> None:
        self.taken = 0
        self.entries = 0
        self._most = most

    @property
    def is_enough(self) -> bool:
        return self.taken > self._most or self.entries >= ENTRIES_MAX

    def look(self, file: int) -> _Level:
        """Count the entries of an open directory, and return the directories in it."""
        directories: list[str] = []
        about = os.fstat(file)
        with os.scandir(file) as found:
            for entry in islice(found, ENTRIES_MAX):
                if self.is_enough:
                    break
                self.entries += 1
                try:
                    # By the name in an open directory, as an entry's own `stat` does.
                    size = os.stat(entry.name, dir_fd=file, follow_symlinks=False)
                except OSError:
                    continue
                self.taken += size.st_blocks * 512 + ENTRY_BYTES
                if stat.S_ISDIR(size.st_mode):
                    directories.append(entry.name)
        return _Level((about.st_dev, about.st_ino), directories)


def taken_by(path: str, most: int) -> int:
    """Return how many bytes of the disk a directory and its content take; stop beyond `most`.

    Of a tree with more than a million entries, or one that is moved meanwhile, only a part is counted.
    """
    walk = _Walk(most)
    try:
        file = os.open(path, _DIRECTORY)
    except OSError:
        return 0
    try:
        levels = [walk.look(file)]
        while not walk.is_enough:
            if levels[-1].directories:
                try:
                    below = os.open(levels[-1].directories.pop(), _DIRECTORY, dir_fd=file)
                except OSError:
                    continue
                os.close(file)
                file = below
                if os.fstat(file).st_dev != levels[0].place[0]:
                    # A mounted storage is on another disk.
                    levels.append(_Level((0, 0), []))
                else:
                    levels.append(walk.look(file))
                continue
            levels.pop()
            if not levels:
                break
            above = os.open("..", _DIRECTORY, dir_fd=file)
            os.close(file)
            file = above
            about = os.fstat(file)
            if (about.st_dev, about.st_ino) != levels[-1].place:
                break
    except OSError:
        return walk.taken
    finally:
        os.close(file)
    return walk.taken
