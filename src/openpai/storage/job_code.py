"""The code of jobs, as files of the data directory.

`users/OWNER/` has one user's share: `files/HASH` each content, `codes/DIGEST.json` the list of each code, and beside it
`DIGEST.jobs`, the jobs that were submitted with it. `packs/DIGEST.tar.gz` is what tasks get, and belongs to all users
who sent the same. A code stays while one of its jobs is not over, and for a week after it was used last; when a user's
quota is full, the codes without such jobs go first. All contents come from users, so nothing is read by a name that was
not checked, and lengths are checked before bytes are kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import io
import os
import secrets
import tarfile
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Final

from openpai.ports.code import CodeKept, CodeOwner
from openpai.protocol.code import BYTES_MAX, LIST_BYTES_MAX, CodeEntry, digest_of, read_list
from openpai.protocol.errors import InvalidParameters, Refused

QUOTA_BYTES: Final = 2 << 30
"""The limit on the contents of one user together."""
KEPT_S: Final = 7 * 86_400.0
YOUNG_S: Final = 3_600.0
"""Contents that were sent or asked about within this time may belong to a code that is being sent."""
_HEADER_MAX: Final = 128
_PIECE: Final = 1 << 20
_BROKEN: Final = (EOFError, gzip.BadGzipFile, zlib.error, ValueError)

IsOver = Callable[[str], Awaitable[bool]]
"""Returns whether a job is over, or does not exist."""


class CodeFiles:
    """`ports.code.CodeStore` below one directory."""

    def __init__(self, root: Path, is_over: IsOver, *, quota_bytes: int = QUOTA_BYTES) -> None:
        self._root = root
        self._is_over = is_over
        self._quota_bytes = quota_bytes
        self._turns: dict[str, asyncio.Lock] = {}

    async def missing(self, owner: CodeOwner, hashes: Sequence[str]) -> list[str]:
        files = self._of(owner) / "files"
        return await asyncio.to_thread(lambda: [one for one in dict.fromkeys(hashes) if not _renew(files / one)])

    async def add(self, owner: CodeOwner, digest: str, content: AsyncIterator[bytes]) -> CodeKept:
        home = self._of(owner)
        incoming = home / f"incoming-{secrets.token_hex(8)}"
        try:
            await asyncio.to_thread(_make, home)
            await _receive(incoming, content)
            async with self._turns.setdefault(home.name, asyncio.Lock()):
                entries = await asyncio.to_thread(_unpack, home, incoming, digest, self._quota_bytes)
                if await asyncio.to_thread(_used, home) > self._quota_bytes:
                    await self._make_room(home, digest)
                await asyncio.to_thread(self._pack, home, digest, entries)
        finally:
            incoming.unlink(missing_ok=True)
        return CodeKept(digest, len(entries), sum(each.size for each in entries))

    async def hold(self, owner: CodeOwner, digest: str, job: str) -> None:
        listed = self._of(owner) / "codes" / f"{digest}.json"

        def hold() -> None:
            try:
                os.utime(listed)
            except FileNotFoundError:
                raise _no_code(digest) from None
            with listed.with_suffix(".jobs").open("a") as jobs:
                jobs.write(f"{job}\n")
            if not self._pack_path(digest).exists():
                self._pack(self._of(owner), digest, read_list(listed.read_bytes()))

        await asyncio.to_thread(hold)

    def pack(self, digest: str) -> str:
        path = self._pack_path(digest)
        if not path.exists():
            raise _no_code(digest)
        return str(path)

    async def expire(self) -> int:
        homes = await asyncio.to_thread(lambda: list(_entries(self._root / "users")))
        removed = 0
        for home in homes:
            async with self._turns.setdefault(home.name, asyncio.Lock()):
                for listed in await asyncio.to_thread(_codes, home, time.time() - KEPT_S):
                    removed += await self._remove(listed)
                await asyncio.to_thread(_sweep, home)
        await asyncio.to_thread(self._sweep_packs)
        return removed

    async def _make_room(self, home: Path, digest: str) -> None:
        """Remove codes that no unfinished job uses, those used longest ago first, until the quota holds."""
        for listed in await asyncio.to_thread(_codes, home, float("inf")):
            if listed.stem == digest or not await self._remove(listed):
                continue
            await asyncio.to_thread(_sweep, home)
            if await asyncio.to_thread(_used, home) <= self._quota_bytes:
                return
        used = await asyncio.to_thread(_used, home)
        (home / "codes" / f"{digest}.json").unlink(missing_ok=True)
        raise Refused(
            "RequestTooLargeError",
            f"your code takes {used >> 20} MiB on the server, and {self._quota_bytes >> 20} MiB are allowed",
            "wait for jobs with other code to end, or send less: put data into a storage",
        )

    async def _remove(self, listed: Path) -> bool:
        """Remove a code unless one of its jobs is not over."""
        jobs = listed.with_suffix(".jobs")
        names = await asyncio.to_thread(lambda: jobs.read_text().split() if jobs.exists() else [])
        left = [name for name in dict.fromkeys(names) if not await self._is_over(name)]
        if left:
            return False
        await asyncio.to_thread(_unlink, listed, jobs)
        return True

    def _pack(self, home: Path, digest: str, entries: Sequence[CodeEntry]) -> None:
        path = self._pack_path(digest)
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            with part.open("wb") as file:
                _write_pack(home / "files", entries, file)
                file.flush()
                os.fsync(file.fileno())
            part.chmod(0o644)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def _sweep_packs(self) -> None:
        wanted = {listed.stem for home in _entries(self._root / "users") for listed in _entries(home / "codes")}
        for path in _entries(self._root / "packs"):
            if path.name.removesuffix(".tar.gz") not in wanted and _age_s(path) > YOUNG_S:
                path.unlink(missing_ok=True)

    def _pack_path(self, digest: str) -> Path:
        return self._root / "packs" / f"{digest}.tar.gz"

    def _of(self, owner: CodeOwner) -> Path:
        # A name of a user may be anything, and a later user of the same name has nothing of the earlier one.
        name = hashlib.sha256(f"{owner.user}\0{owner.since_ms}".encode()).hexdigest()[:32]
        return self._root / "users" / name


def _make(home: Path) -> None:
    for name in ("files", "codes"):
        (home / name).mkdir(parents=True, exist_ok=True, mode=0o700)


async def _receive(path: Path, content: AsyncIterator[bytes]) -> None:
    size = 0
    with await asyncio.to_thread(path.open, "wb") as file:
        async for piece in content:
            size += len(piece)
            if size > BYTES_MAX + LIST_BYTES_MAX:
                raise Refused("RequestTooLargeError", f"code of more than {BYTES_MAX >> 20} MiB cannot be sent")
            await asyncio.to_thread(file.write, piece)


def _unpack(home: Path, incoming: Path, digest: str, quota_bytes: int) -> tuple[CodeEntry, ...]:
    """Store what was sent, and return the entries of the code; all its contents are there then."""
    try:
        with gzip.open(incoming, "rb") as stream:
            name, listed = _frame(stream, LIST_BYTES_MAX, None)
            if name != digest or digest_of(listed) != digest:
                raise InvalidParameters("the list of the code's files does not have the name it was sent under")
            entries = read_list(listed)
            sizes = {each.sha256: each.size for each in entries if not each.target}
            awaited = dict(sizes)
            while stream.peek(1):
                _frame(stream, BYTES_MAX, (home / "files", awaited))
    except _BROKEN as error:
        raise InvalidParameters("the code did not arrive whole", "send it again") from error
    lacking = [sha256 for sha256, size in sizes.items() if _size(home / "files" / sha256) != size]
    if lacking:
        message = f"{len(lacking)} of {len(sizes)} contents of the code were not sent and are not here"
        raise InvalidParameters(message, "ask which are missing, and send the code again")
    if sum(sizes.values()) > quota_bytes:
        raise Refused("RequestTooLargeError", f"the code is larger than the {quota_bytes >> 20} MiB that you may keep")
    _replace(home / "codes" / f"{digest}.json", listed)
    return entries


def _frame(stream: gzip.GzipFile, limit: int, goal: tuple[Path, dict[str, int]] | None) -> tuple[str, bytes]:
    """Read one content: a line with its hash and size, then the bytes; without a goal, return them."""
    name, _, length = stream.readline(_HEADER_MAX).decode("ascii").strip().partition(" ")
    size = int(length)
    # Each content once, so that what is sent small stays small when it is unpacked.
    if not 0 <= size <= limit or (goal is not None and goal[1].pop(name, None) != size):
        raise InvalidParameters("the code has contents that are not in its list", "send it again")
    if goal is None:
        content = stream.read(size)
        return name, content
    part = goal[0] / f".{secrets.token_hex(8)}"
    try:
        found = hashlib.sha256()
        with part.open("wb") as file:
            left = size
            while left:
                piece = stream.read(min(left, _PIECE))
                if not piece:
                    raise EOFError
                found.update(piece)
                file.write(piece)
                left -= len(piece)
        if found.hexdigest() != name:
            raise InvalidParameters("a content of the code is not what its hash says", "send it again")
        part.replace(goal[0] / name)
    finally:
        part.unlink(missing_ok=True)
    return name, b""


def _write_pack(files: Path, entries: Sequence[CodeEntry], goal: IO[bytes]) -> None:
    with (
        gzip.GzipFile(fileobj=goal, mode="wb", mtime=0, filename="", compresslevel=3) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for entry in entries:
            member = tarfile.TarInfo(entry.name)
            member.mode = 0o755 if entry.is_executable else 0o644
            if entry.target:
                member.type, member.linkname = tarfile.SYMTYPE, entry.target
                archive.addfile(member)
                continue
            with (files / entry.sha256).open("rb") as file:
                content: IO[bytes] = io.BytesIO(file.read()) if entry.size <= _PIECE else file
                member.size = entry.size
                archive.addfile(member, content)


def _unlink(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _sweep(home: Path) -> None:
    """Remove contents that no code uses, and what an interrupted request left."""
    used: set[str] = set()
    for listed in _entries(home / "codes"):
        if listed.suffix == ".json":
            used.update(each.sha256 for each in read_list(listed.read_bytes()))
    left_over = [path for path in _entries(home) if path.name.startswith("incoming-")]
    for path in [*_entries(home / "files"), *left_over]:
        if path.name not in used and _age_s(path) > YOUNG_S:
            path.unlink(missing_ok=True)


def _codes(home: Path, before_s: float) -> list[Path]:
    """Return the codes that were used last before a time, oldest first."""
    found = [(path.stat().st_mtime, path) for path in _entries(home / "codes") if path.suffix == ".json"]
    return [path for when_s, path in sorted(found) if when_s < before_s]


def _used(home: Path) -> int:
    return sum(_size(path) or 0 for path in _entries(home / "files"))


def _entries(directory: Path) -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError):
        yield from list(directory.iterdir())


def _renew(path: Path) -> bool:
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _no_code(digest: str) -> Refused:
    return Refused(
        "NoCodeError",
        f"the code {digest[:12]} of the job is not on this server, or is no longer kept",
        "send it again: pai job submit FILE --code DIR",
    )
