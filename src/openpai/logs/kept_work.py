"""The working directories of ended tasks that are kept for a while, each named like the logs of its attempt.

A task has created these trees and may be hostile: they are walked by open directories, no link is followed, and
anything but ordinary files is left out, as is anything at an unreasonable depth.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from openpai.lifecycle.model import AttemptKey
from openpai.logs.checkpoints import KeptCheckpoints
from openpai.logs.removing import remove_leftovers, remove_logs
from openpai.ports.clock import Clock
from openpai.ports.kept_work import KeptAttempt
from openpai.protocol.errors import Refused
from openpai.runtime.outputs import Wanted

LEVELS_MAX: Final = 64
FILES_MAX: Final = 100_000
"""The number of files of one task that are counted and served."""
_PIECE: Final = 1 << 18
ALL: Final = Wanted(())
_BLOCK: Final = 512
_LEVEL: Final = 3
"""How hard to compress: weights hardly get smaller, and higher levels take several times as long."""
_GZIP: Final = 16
_MINUTE_MS: Final = 60_000
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _Found(NamedTuple):
    """An ordinary file: its path below the top, and its name in the open directory it is in."""

    path: str
    directory: int
    name: str
    about: os.stat_result


class KeptDirectories:
    """`ports.kept_work.KeptWork` over `root/<key.path()>/`; each is removed `kept_ms` after it was added."""

    def __init__(self, root: Path, clock: Clock, kept_ms: int, checkpoints: KeptCheckpoints | None = None) -> None:
        """`checkpoints` go with the work of a job that is deleted."""
        self._checkpoints = checkpoints
        self._root = root
        self._clock = clock
        self._kept_ms = kept_ms

    async def all(self) -> Mapping[AttemptKey, int]:
        return await asyncio.to_thread(self._all)

    async def count(self, key: AttemptKey) -> KeptAttempt | None:
        since_ms = (await self.all()).get(key)
        return None if since_ms is None else await asyncio.to_thread(self._counted, key, since_ms)

    async def discard(self, key: AttemptKey) -> None:
        await asyncio.to_thread(self._remove, key.path())

    async def of_job(self, job: str) -> tuple[KeptAttempt, ...]:
        return await asyncio.to_thread(self._of_job, job)

    async def archive(self, key: AttemptKey, paths: Sequence[str]) -> Iterator[bytes]:
        given = tuple(path.strip("/") for path in paths if path.strip("/"))
        wanted = Wanted(given)
        top = f"{self._root}/{key.path()}"
        if not await asyncio.to_thread(lambda: any(True for _ in _files(top, wanted))):
            what = f"no {', '.join(given)}" if given else "nothing"
            raise Refused(
                "NoFileError",
                f"{what} is kept of the working directory of task {key.role}-{key.index}",
                "`pai job show` shows what is kept, and until when; `pai job fetch --all` brings all of it",
            )
        return _archive({"": top}, wanted)

    async def archive_of(self, tasks: Mapping[str, AttemptKey], paths: Sequence[str]) -> Iterator[bytes]:
        given = tuple(path.strip("/") for path in paths if path.strip("/"))
        wanted = Wanted(given)
        tops = {name: f"{self._root}/{key.path()}" for name, key in tasks.items()}
        if not await asyncio.to_thread(lambda: any(True for top in tops.values() for _ in _files(top, wanted))):
            what = f"no {', '.join(given)}" if given else "nothing"
            raise Refused(
                "NoFileError",
                f"{what} is kept of the working directories of these tasks",
                "`pai job show` shows what is kept, and until when; `pai job fetch --all` brings all of it",
            )
        return _gzipped(_archive({name and f"{name}/": top for name, top in tops.items()}, wanted))

    def remove(self, keys: Sequence[AttemptKey]) -> None:
        """Remove the kept directories of these attempts. Blocks."""
        for key in keys:
            self._remove(key.path())
        if self._checkpoints is not None:
            self._checkpoints.remove({key.job for key in keys})

    def expire(self, *, is_scarce: bool = False) -> int:
        """Remove old directories, or all of them when the disk is full; return how many. Blocks."""
        with contextlib.suppress(FileNotFoundError):
            remove_leftovers(self._root)
        before_ms = self._clock.now_ms() - (0 if is_scarce else self._kept_ms)
        old = [name for name, since_ms in self._names() if since_ms <= before_ms]
        for name in old:
            self._remove(name)
        return len(old)

    def _all(self) -> Mapping[AttemptKey, int]:
        found: dict[AttemptKey, int] = {}
        for name, since_ms in sorted(self._names(), key=lambda each: each[1]):
            with contextlib.suppress(ValueError):
                found[AttemptKey.parse(name)] = since_ms
        return found

    def _of_job(self, job: str) -> tuple[KeptAttempt, ...]:
        kept = [self._counted(key, since_ms) for key, since_ms in self._all().items() if key.job == job]
        return tuple(sorted(kept, key=lambda one: one.key))

    def _counted(self, key: AttemptKey, since_ms: int) -> KeptAttempt:
        sizes = [found.about.st_size for found in _files(f"{self._root}/{key.path()}", ALL)]
        until_ms = since_ms + self._kept_ms
        return KeptAttempt(key, len(sizes), sum(sizes), until_ms, is_counted=len(sizes) < FILES_MAX)

    def _names(self) -> Iterator[tuple[str, int]]:
        """Yield the kept directories, each with its time. The task may have set any earlier time."""
        latest_ms = self._clock.now_ms() + _MINUTE_MS
        with contextlib.suppress(FileNotFoundError), os.scandir(self._root) as found:
            for entry in found:
                if entry.name.startswith("."):
                    continue
                with contextlib.suppress(FileNotFoundError):
                    since_ms = entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000
                    yield entry.name, since_ms if since_ms <= latest_ms else 0

    def _remove(self, name: str) -> None:
        remove_logs(f"{self._root}/{name}")


def _files(top: str, wanted: Wanted) -> Iterator[_Found]:
    """Yield a limited number of ordinary files below a directory, those that are wanted."""
    try:
        levels = [(os.open(top, _DIRECTORY), "", [""])]
    except OSError:
        return
    levels[0][2][:] = _names_in(levels[0][0])
    count = 0
    try:
        while levels and count < FILES_MAX:
            directory, prefix, names = levels[-1]
            if not names:
                os.close(levels.pop()[0])
                continue
            name = names.pop()
            path = f"{prefix}{name}"
            with contextlib.suppress(OSError):
                about = os.stat(name, dir_fd=directory, follow_symlinks=False)
                if stat.S_ISDIR(about.st_mode) and len(levels) < LEVELS_MAX and wanted.may_hold(path):
                    below = os.open(name, _DIRECTORY, dir_fd=directory)
                    levels.append((below, f"{path}/", _names_in(below)))
                elif stat.S_ISREG(about.st_mode) and wanted.has(path):
                    count += 1
                    yield _Found(path, directory, name, about)
    finally:
        for directory, _, _ in levels:
            os.close(directory)


def _names_in(directory: int) -> list[str]:
    names = []
    with contextlib.suppress(OSError), os.scandir(directory) as found:
        for _, entry in zip(range(FILES_MAX), found, strict=False):
            names.append(entry.name)
    return sorted(names, reverse=True)


def _archive(tops: Mapping[str, str], wanted: Wanted) -> Iterator[bytes]:
    """Yield the files of several directories as a tar archive; what each is named begins with its key."""
    for begin, top in tops.items():
        for found in _files(top, wanted):
            try:
                file = os.open(found.name, _FILE, dir_fd=found.directory)
            except OSError:
                continue
            try:
                yield from _member(file, found, begin)
            finally:
                os.close(file)
    yield bytes(2 * _BLOCK)


def _gzipped(pieces: Iterator[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(level=_LEVEL, wbits=zlib.MAX_WBITS | _GZIP)
    for piece in pieces:
        if data := packer.compress(piece):
            yield data
    yield packer.flush()


def _member(file: int, found: _Found, begin: str) -> Iterator[bytes]:
    """Yield a file as an entry of a tar archive, of exactly the length in its header, even if the file changes."""
    member = tarfile.TarInfo(f"{begin}{found.path}")
    member.size, member.mtime = found.about.st_size, int(found.about.st_mtime)
    member.mode = 0o755 if found.about.st_mode & 0o100 else 0o644
    yield member.tobuf(tarfile.PAX_FORMAT)
    left = member.size
    while left:
        data = os.read(file, min(_PIECE, left)) or bytes(min(_PIECE, left))
        left -= len(data)
        yield data
    yield bytes(-member.size % _BLOCK)
