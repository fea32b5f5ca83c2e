"""The format of a backup: one compressed tar file that ends with a manifest of the digests of all other files.

A truncated file has no manifest and is refused; so is one with an unknown member, or with a name that leads elsewhere.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import stat
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from openpai.protocol.errors import BadConfiguration, Refused, Unavailable

MANIFEST: Final = "manifest.json"
SQLITE: Final = "openpai.db"
POSTGRES: Final = "database.dump"
KEY: Final = "secret.key"
UIDS: Final = "task-uids"
SSH_KEY: Final = "ssh-host-key"
FORMAT: Final = 1
_LEVEL: Final = 4
_TIME_MAX: Final = 1 << 36
_CHUNK: Final = 1 << 20
_MANIFEST_MAX: Final = 1 << 28
_BELOW: Final = re.compile(r"(logs|code)(/(?!\.\.?(/|$))[^/\0]+)+")


class _Hashing:
    """Reads a file of a known length and computes its digest."""

    def __init__(self, file: IO[bytes], length: int) -> None:
        self._file, self._left = file, length
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, with zeros after an early end: a log may be cut meanwhile."""
        size = self._left if size < 0 else min(size, self._left)
        data = self._file.read(size)
        data += bytes(size - len(data))
        self._left -= size
        self.digest.update(data)
        return data


@dataclass
class Writing:
    """A backup that is being written."""

    tar: tarfile.TarFile
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, name: str, file: IO[bytes]) -> None:
        """Add an open file with its current length."""
        found = os.fstat(file.fileno())
        member = _member(name, found.st_size, found.st_mtime)
        reading = _Hashing(file, found.st_size)
        self.tar.addfile(member, reading)
        self.files[name] = {"size": found.st_size, "sha256": reading.digest.hexdigest()}

    def add_tree(self, root: Path) -> None:
        """Add the files below `root`. Anything but a plain file was created by a task and is skipped."""
        if not root.is_dir():
            return
        # By open directories: the owner of a task could replace one by a link.
        for above, _, names, directory in os.fwalk(root, follow_symlinks=False):
            inside = Path(above).relative_to(root.parent)
            for name in sorted(names):
                try:
                    opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
                except OSError:
                    # A link, or removed meanwhile.
                    continue
                with os.fdopen(opened, "rb") as file:
                    if stat.S_ISREG(os.fstat(opened).st_mode):
                        self.add(f"{inside}/{name}", file)

    def finish(self, manifest: dict[str, Any]) -> None:
        """Add the manifest, which completes the backup."""
        data = json.dumps({"format": FORMAT, **manifest, "files": self.files}, indent=1).encode()
        self.tar.addfile(_member(MANIFEST, len(data), manifest["time"]), io.BytesIO(data))
        self.tar.close()


def write_archive(file: IO[bytes]) -> tuple[Writing, gzip.GzipFile]:
    """Start a backup in an open file; the caller closes the second value at the end."""
    packed = gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=file)
    return Writing(tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT)), packed


def unpack(archive: Path, target: Path) -> dict[str, Any]:
    """Unpack a backup into an empty directory; return its manifest.

    Raises Refused for a file that is incomplete, changed, or not a backup.
    """
    digests: dict[str, dict[str, Any]] = {}
    manifest: dict[str, Any] | None = None
    try:
        with archive.open("rb") as file, gzip.GzipFile(fileobj=file) as packed:
            with tarfile.open(fileobj=packed, mode="r|") as tar:
                for member in tar:
                    _refuse_unsafe(archive, member, digests, is_over=manifest is not None)
                    content = tar.extractfile(member) or io.BytesIO()
                    if member.name == MANIFEST:
                        manifest = _parsed(archive, content.read(_MANIFEST_MAX))
                    else:
                        digests[member.name] = _written(content, target / member.name)
            # The digest of the whole comes last.
            while packed.read(_CHUNK):
                pass
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, OverflowError) as error:
        raise _damaged(archive, str(error) or "it ends too early") from error
    except OSError as error:
        message = f"the backup {archive} cannot be unpacked into {target}: {error.strerror or error}"
        raise Unavailable(message, "correct that and try again; nothing was changed") from error
    if manifest is None:
        raise _damaged(archive, "it has no manifest, so it is incomplete or not a backup")
    _compare(archive, manifest, digests)
    return manifest


def _member(name: str, size: int, changed: float) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = size, int(changed), 0o600
    return member


def _refuse_unsafe(archive: Path, member: tarfile.TarInfo, known: dict[str, Any], *, is_over: bool) -> None:
    is_ours = member.name in (MANIFEST, SQLITE, POSTGRES, KEY, UIDS, SSH_KEY) or _BELOW.fullmatch(member.name)
    if not member.isreg() or not is_ours or member.name in known or is_over:
        what = "is a link or not a plain file" if not member.isreg() else "does not belong there"
        message = f"{archive} is not a backup of openpai: {member.name[:200]!r} in it {what}"
        raise BadConfiguration(message, "nothing was changed; name a file of `pai admin backup`")


def _written(content: IO[bytes], target: Path) -> dict[str, Any]:
    """Write a member to a new file that only its owner can read; return its size and digest."""
    _make_private(target.parent)
    size, digest = 0, hashlib.sha256()
    made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(made, "wb") as file:
        for data in _chunks(content):
            size += len(data)
            digest.update(data)
            file.write(data)
        file.flush()
        os.fsync(made)
    return {"size": size, "sha256": digest.hexdigest()}


def _make_private(directory: Path) -> None:
    # With `parents=True` the directories above would be open to all users.
    if not directory.is_dir():
        _make_private(directory.parent)
        directory.mkdir(mode=0o700)


def _chunks(content: IO[bytes]) -> Iterator[bytes]:
    while data := content.read(_CHUNK):
        yield data


def _parsed(archive: Path, data: bytes) -> dict[str, Any]:
    try:
        manifest = json.loads(data)
        is_one = isinstance(manifest["files"], dict) and isinstance(manifest["schema"], str)
        is_one = is_one and isinstance(manifest["time"], int) and 0 <= manifest["time"] < _TIME_MAX
        form = int(manifest["format"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(archive, "its manifest cannot be read") from error
    if form > FORMAT:
        message = f"the backup {archive} was written by a newer openpai ({manifest.get('version', '?')})"
        raise BadConfiguration(message, "install that version or a newer one; nothing was changed")
    if not is_one:
        raise _damaged(archive, "its manifest cannot be read")
    found: dict[str, Any] = manifest
    return found


def _compare(archive: Path, manifest: dict[str, Any], digests: dict[str, dict[str, Any]]) -> None:
    names = sorted(manifest["files"].keys() | digests.keys())
    wrong = [name for name in names if manifest["files"].get(name) != digests.get(name)]
    if wrong:
        raise _damaged(archive, f"{wrong[0]} differs from the manifest")
    if (SQLITE in digests) == (POSTGRES in digests):
        raise _damaged(archive, "it holds no database")


def _damaged(archive: Path, why: str) -> Refused:
    message = f"the backup {archive} is damaged or incomplete: {why}"
    return BadConfiguration(message, "take another backup; nothing was changed")
