"""Sends the code in a directory to the server: its list, and the contents that the server lacks."""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import httpx

from openpai.client import retry
from openpai.client.calls.code import code_path
from openpai.client.calls_core import API, finished
from openpai.client.code import Code
from openpai.protocol.code import HASHES_MAX, CodeEntry, check, digest_of, write_list
from openpai.protocol.errors import InvalidParameters, Unavailable

if TYPE_CHECKING:
    from openpai.client.client import Client

_PIECE: Final = 1 << 20
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Listed:
    """The list of a code's files, and where each content is on this machine."""

    digest: str
    content: bytes
    entries: tuple[CodeEntry, ...]
    paths: dict[str, str]

    @property
    def bytes(self) -> int:
        """Return the size of the files together."""
        return sum(entry.size for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Sent:
    """What was sent: contents that the server had were not."""

    files: int = 0
    bytes: int = 0


def list_code(code: Code) -> Listed:
    """Read all files of a code and return their list. Raise InvalidParameters for what cannot be sent."""
    if code.left_out:
        more = f", and {len(code.left_out) - _SHOWN} more" if len(code.left_out) > _SHOWN else ""
        message = f"{code.root} cannot be sent: {'; '.join(code.left_out[:_SHOWN])}{more}"
        raise InvalidParameters(message, "remove them, or name them in .paiignore")
    paths: dict[str, str] = {}
    entries = []
    for file in code.files:
        entry = _entry(file.path, file.name)
        entries.append(entry)
        paths.setdefault(entry.sha256, file.path)
    check(entries)
    content = write_list(entries)
    return Listed(digest_of(content), content, tuple(entries), paths)


def send_code(pai: Client, listed: Listed) -> Sent:
    """Send a code; return what had to be sent. Contents that the server has are not sent again."""
    sizes = {entry.sha256: entry.size for entry in listed.entries if not entry.target}
    hashes = list(sizes)
    missing: list[str] = []
    for at in range(0, len(hashes), HASHES_MAX):
        missing.extend(pai.missing_code(hashes[at : at + HASHES_MAX]))
    with tempfile.TemporaryFile() as packed:
        _pack(listed, [sha256 for sha256 in missing if sha256 in sizes], sizes, packed)
        _put(pai, listed.digest, packed)
    return Sent(len(missing), sum(sizes[sha256] for sha256 in missing if sha256 in sizes))


def _put(pai: Client, digest: str, packed: IO[bytes]) -> None:
    size = packed.tell()
    headers = {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
    for attempt in count():
        packed.seek(0)
        try:
            finished(pai.wire.put(f"{API}{code_path(digest)}", iter(lambda: packed.read(_PIECE), b""), headers))
            return
        except httpx.TransportError as error:
            if attempt == retry.TRIES - 1:
                raise retry.unreachable(pai.url, error) from error
            finished(pai.wire.sleep(retry.pause_s(attempt)))


def _pack(listed: Listed, missing: list[str], sizes: dict[str, int], goal: IO[bytes]) -> None:
    with gzip.GzipFile(fileobj=goal, mode="wb", mtime=0, filename="", compresslevel=3) as packed:
        packed.write(f"{listed.digest} {len(listed.content)}\n".encode() + listed.content)
        for sha256 in missing:
            packed.write(f"{sha256} {sizes[sha256]}\n".encode())
            left = sizes[sha256]
            for piece in _pieces(listed.paths[sha256]):
                packed.write(piece[:left])
                left -= min(left, len(piece))
            if left:
                raise Unavailable(f"{listed.paths[sha256]} changed while it was sent", "send it again")


def _entry(path: str, name: str) -> CodeEntry:
    entry = CodeEntry(name)
    try:
        if stat.S_ISLNK(os.lstat(path).st_mode):
            return replace(entry, target=str(Path(path).readlink()))
        found, size = hashlib.sha256(), 0
        for piece in _pieces(path):
            found.update(piece)
            size += len(piece)
        is_executable = bool(Path(path).stat().st_mode & 0o100)
    except OSError as error:
        raise Unavailable(f"{path} changed or went while it was read", "send it again") from error
    return replace(entry, sha256=found.hexdigest(), size=size, is_executable=is_executable)


def _pieces(path: str) -> Iterator[bytes]:
    # A file that was replaced by a pipe meanwhile must not block.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
        yield from iter(lambda: file.read(_PIECE), b"")
