"""Unpacks archives of a hostile container, one after the other: regular files below one directory, within limits.

Links, devices, directories without files, and names that lead elsewhere are left out. A hard link to a file of the
archive becomes that file.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

FILES_MAX: Final = 100_000
DEPTH_MAX: Final = 60
NAME_MAX: Final = 1000
PART_MAX: Final = 255
_HEADER_MAX: Final = 1 << 20
_EXTENDED: Final = frozenset(
    {tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK}
)


@dataclass(slots=True)
class Unpacked:
    """What was made of an archive."""

    files: int = 0
    bytes: int = 0
    has_more: bool = False
    """Whether files were left out, because they are too many or the archive is cut off."""


class _Member(tarfile.TarInfo):
    """A member whose extended header does not fill the memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if (member.type in _EXTENDED and member.size > _HEADER_MAX) or member.size < 0:
            raise tarfile.ReadError("a header that no file needs")
        return member


def unpack(packed: Path, goal: Path, bytes_max: int) -> Unpacked:
    """Write the files of an archive below a new directory. Raise OSError if one cannot be written. Blocks."""
    found = Unpacked()
    goal.mkdir(mode=0o700)
    try:
        with tarfile.open(packed, "r:", tarinfo=_Member, ignore_zeros=True) as archive:
            for member in archive:
                # Python keeps every member that it has read.
                archive.members = []  # type: ignore[attr-defined]
                if (path := _path(goal, member.name)) is not None:
                    _make(archive, member, (goal, path), found, bytes_max)
    except (tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError):
        found.has_more = True
    return found


def _make(
    archive: tarfile.TarFile, member: tarfile.TarInfo, where: tuple[Path, Path], found: Unpacked, bytes_max: int
) -> None:
    goal, path = where
    source = _path(goal, member.linkname) if member.islnk() else None
    if not member.isreg() and (source is None or not source.is_file()):
        return
    if os.path.lexists(path) or any(parent.is_file() for parent in _between(goal, path)):
        return
    size = member.size if source is None else source.stat().st_size
    if found.files >= FILES_MAX or found.bytes + size > bytes_max:
        found.has_more = True
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if source is not None:
        os.link(source, path)
    else:
        _write(archive, member, path)
    found.files += 1
    found.bytes += size


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    content: Any = archive.extractfile(member)
    try:
        with path.open("xb") as file:
            shutil.copyfileobj(content, file)
        if path.stat().st_size != member.size:
            raise EOFError
        os.utime(path, (member.mtime, member.mtime))
        path.chmod(0o700 if member.mode & 0o100 else 0o600)
    except BaseException:
        # Half a file looks like a whole one.
        path.unlink(missing_ok=True)
        raise


def _between(goal: Path, path: Path) -> list[Path]:
    return [parent for parent in path.parents if parent.is_relative_to(goal) and parent != goal]


def _path(goal: Path, name: str) -> Path | None:
    """Return where a file goes; None for a name that leads elsewhere."""
    parts = [part for part in name.split("/") if part != "."]
    if not parts or len(parts) > DEPTH_MAX or len(name) > NAME_MAX or "\0" in name:
        return None
    if any(part in ("", "..") or len(os.fsencode(part)) > PART_MAX for part in parts):
        return None
    return goal.joinpath(*parts)
