"""The checkpoint directories of tasks on this machine: one for each task of a job, which all its attempts share.

`root/.checkpoints/JOB/ROLE.INDEX` belongs to the task's user. A task may put anything there, so the server never
follows a link, reads no file, and looks at a limited number of names. Directories in which nothing was written go with
the last attempt of their job; the others stay until the job is archived, deleted, or old. Empty directories of jobs are
kept for later jobs, because a disk takes longer to create and remove one than to rename it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from itertools import islice
from typing import Final

from openpai.backends.host.directory import make_directory
from openpai.lifecycle.model import AttemptKey

CHECKPOINTS: Final = ".checkpoints"
SPARE_PREFIX: Final = ".spare-"
SPARES_MAX: Final = 64
"""How many empty directories of jobs are kept for later jobs."""
_ENTRIES_MAX: Final = 10_000
_LEVELS_MAX: Final = 4
_UNFINISHED: Final = (".tmp", ".temp", ".part", ".partial", ".incomplete", ".lock")
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class CheckpointDirectories:
    """The checkpoint directories below the root of a backend."""

    def __init__(self, root: str) -> None:
        self._root = f"{root}/{CHECKPOINTS}"
        self._spares: list[str] = []
        self._kept = 0

    def open(self) -> None:
        """Create the directory of all of them; a task's user may pass through it, but not list it."""
        make_directory(self._root)
        os.chmod(self._root, 0o711)  # noqa: PTH101, S103  # see above
        self._spares.clear()
        for name in os.listdir(self._root):  # noqa: PTH208
            if name.startswith(SPARE_PREFIX):
                with contextlib.suppress(OSError):
                    os.rmdir(f"{self._root}/{name}")  # noqa: PTH106

    def path(self, key: AttemptKey) -> str:
        """Return the directory of a task."""
        return f"{self._root}/{key.job}/{key.role}.{key.index}"

    def make(self, key: AttemptKey, owner: int = -1, mode: int = 0o700) -> str:
        """Return the directory of a task, created if necessary for the user `owner`; -1 is the server's own.

        Raise OSError if that fails.
        """
        path = self.path(key)
        try:
            os.mkdir(path, 0o700)  # noqa: PTH102  # done for each task
        except FileExistsError:
            # It is an earlier attempt's. Its owner may have closed it, which is the owner's business.
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise
            return path
        except FileNotFoundError:
            self._make_job(f"{self._root}/{key.job}")
            make_directory(path)
        if owner != -1:
            os.chown(path, owner, -1)
        if mode != 0o700:
            os.chmod(path, mode)  # noqa: PTH101
        return path

    def remove_unused(self, job: str) -> None:
        """Remove those directories of a job that are empty."""
        of_job = f"{self._root}/{job}"
        with contextlib.suppress(OSError):
            is_empty = True
            for name in os.listdir(of_job):  # noqa: PTH208  # done for each job
                try:
                    os.rmdir(f"{of_job}/{name}")  # noqa: PTH106
                except OSError:
                    is_empty = False
            if is_empty:
                self._keep_or_remove(of_job)

    def _make_job(self, path: str) -> None:
        if self._spares:
            spare = self._spares.pop()
            try:
                os.rename(spare, path)  # noqa: PTH104  # done for each job
            except FileNotFoundError:
                pass
            except OSError:
                # Another task of the job was first.
                self._spares.append(spare)
            else:
                return
        make_directory(path)
        os.chmod(path, 0o711)  # noqa: PTH101, S103  # as the directory of all

    def _keep_or_remove(self, of_job: str) -> None:
        if len(self._spares) >= SPARES_MAX:
            os.rmdir(of_job)  # noqa: PTH106
            return
        self._kept += 1
        spare = f"{self._root}/{SPARE_PREFIX}{self._kept}"
        os.rename(of_job, spare)  # noqa: PTH104  # done for each job
        self._spares.append(spare)

    def newest_ms(self, key: AttemptKey, now_ms: int) -> int | None:
        """Return when the newest complete file of a task was written, None if there is none.

        Files whose name begins with a dot, or ends as those of unfinished writes do, are not complete. Blocks.
        """
        times = [at_ms for at_ms in _written(self.path(key)) if at_ms <= now_ms]
        return max(times, default=None)


def _written(path: str) -> Iterator[int]:
    """Yield when complete files below a directory were written, of a limited number."""
    with contextlib.suppress(OSError):
        file = os.open(path, _DIRECTORY)
        try:
            yield from islice(_written_in(file, _LEVELS_MAX), _ENTRIES_MAX)
        finally:
            os.close(file)


def _written_in(directory: int, levels: int) -> Iterator[int]:
    with os.scandir(directory) as found:
        for entry in islice(found, _ENTRIES_MAX):
            if entry.name.startswith(".") or entry.name.endswith(_UNFINISHED):
                continue
            with contextlib.suppress(OSError):
                about = os.stat(entry.name, dir_fd=directory, follow_symlinks=False)
                if stat.S_ISREG(about.st_mode) and about.st_size:
                    yield about.st_mtime_ns // 1_000_000
                elif stat.S_ISDIR(about.st_mode) and levels > 1:
                    inner = os.open(entry.name, _DIRECTORY, dir_fd=directory)
                    try:
                        yield from _written_in(inner, levels - 1)
                    finally:
                        os.close(inner)
