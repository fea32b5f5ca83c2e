"""Fetches the files that a task left in its working directory, and writes only new files below one directory.

The archive comes from a server, and its content from a task: only regular files are written, and none whose name leads
out of the directory.
"""

from __future__ import annotations

import re
import shutil
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from io import RawIOBase
from itertools import chain
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from openpai.client import model
from openpai.client.calls.jobs import task_path
from openpai.client.calls_core import API, iterated
from openpai.client.client import Client
from openpai.protocol.errors import InvalidParameters, Unavailable

_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def fetch_work(
    pai: Client,
    job: str,
    kept: model.WorkKept,
    goal: Path,
    paths: Sequence[str] = (),
    *,
    everything: bool = False,
    unfit: Callable[[str], object] = lambda name: None,
) -> list[Path]:
    """Write the files that a task left below `goal`; return their paths.

    Those at or below `paths`, which may be patterns; without paths, those that the job names as outputs, and all if it
    names none or with `everything`. `unfit` is called with each name under which no file is written. Raise Refused if
    a file of that name exists.
    """
    place = task_path(pai.path(job), kept.role, kept.index, kept.job_attempt)
    query_pairs = [*[("path", path) for path in paths], *([("all", "true")] if everything else [])]
    query = f"?{urlencode(query_pairs)}" if query_pairs else ""
    written: list[Path] = []
    with closing(iterated(pai.wire.fetch(f"{API}{place}/{kept.attempt}/work{query}"))) as pieces:
        try:
            with tarfile.open(fileobj=_Stream(pieces), mode="r|") as archive:
                for member in archive:
                    if not member.isreg():
                        continue
                    if (path := _place(goal, member.name)) is None:
                        unfit(member.name)
                        continue
                    _write(path, archive, member)
                    written.append(path)
        except tarfile.TarError as error:
            raise Unavailable(f"what task {kept.name} left did not arrive whole: {error}", "fetch it again") from error
    return written


def fetch_archive(
    pai: Client, job: str, goal: Path, paths: Sequence[str] = (), *, everything: bool = False, **tasks: str | int | None
) -> int:
    """Write what the tasks of a job left to a new file, as a tar.gz archive; return its length in bytes.

    `tasks` says of which: `role`, `index` and `attempt`. What does not arrive whole leaves no file.
    """
    query_pairs: list[tuple[str, str | int]] = [("path", path) for path in paths]
    query_pairs += [("all", "true")] if everything else []
    query_pairs += [(name, value) for name, value in tasks.items() if value is not None]
    query = f"?{urlencode(query_pairs)}" if query_pairs else ""
    size = 0
    with closing(iterated(pai.wire.fetch(f"{API}{pai.path(job)}/work/archive{query}"))) as pieces:
        first = next(pieces, b"")
        try:
            file = goal.open("xb")
        except FileExistsError:
            raise InvalidParameters(f"the file {goal} exists already", "choose another name") from None
        try:
            with file:
                for piece in chain((first,), pieces):
                    size += file.write(piece)
        except BaseException:
            goal.unlink(missing_ok=True)
            raise
    return size


def _place(goal: Path, name: str) -> Path | None:
    parts = name.split("/")
    if _UNFIT.search(name) or any(part in ("", ".", "..") for part in parts):
        return None
    return goal.joinpath(*parts)


def _write(path: Path, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    content = archive.extractfile(member)
    if content is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("xb") as file:
            shutil.copyfileobj(content, file)
    except FileExistsError:
        raise InvalidParameters(f"the file {path} exists already", "choose another --to") from None
    if member.mode & 0o100:
        path.chmod(path.stat().st_mode | 0o111)


class _Stream(RawIOBase):
    """An answer as a readable file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes; fewer only at the end."""
        gathered = bytearray(self._rest)
        while len(gathered) < size and (piece := next(self._pieces, b"")):
            gathered += piece
        self._rest = bytes(gathered[size:])
        return bytes(gathered[:size])
