"""What tasks left is given out whole, and nothing that does not belong to it."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from openpai.lifecycle.model import AttemptKey
from openpai.logs.kept_work import LEVELS_MAX, KeptDirectories
from openpai.protocol.errors import Refused
from tests.clocks import HandClock

KEY = AttemptKey("a" * 32, 0, "worker", 0, 0)
HOUR_MS = 3_600_000
START_MS = 1_000_000_000_000


@pytest.fixture
def clock() -> HandClock:
    return HandClock(START_MS)


@pytest.fixture
def kept(tmp_path: Path, clock: HandClock) -> KeptDirectories:
    return KeptDirectories(tmp_path / "kept", clock, HOUR_MS)


def leave(tmp_path: Path, key: AttemptKey = KEY, **files: bytes) -> Path:
    top = tmp_path / "kept" / key.path()
    top.mkdir(parents=True)
    for name, content in files.items():
        (top / name).write_bytes(content)
    os.utime(top, (START_MS / 1000, START_MS / 1000))
    return top


async def fetched(kept: KeptDirectories, *paths: str) -> dict[str, bytes]:
    packed = io.BytesIO(b"".join(await kept.archive(KEY, paths)))
    with tarfile.open(fileobj=packed) as archive:
        assert all(member.isreg() for member in archive)
        return {one.name: (archive.extractfile(one) or io.BytesIO()).read() for one in archive.getmembers()}


async def test_files_come_as_they_are_and_nothing_else_comes(tmp_path: Path, kept: KeptDirectories) -> None:
    top = leave(tmp_path, a=b"1" * 513, b=b"")
    (top / "sub").mkdir()
    (top / "sub" / "ü").write_bytes(b"x")
    (top / "sub" / ("n" * 200)).write_bytes(b"long")
    (top / "link").symlink_to("/etc/hostname")
    (top / "sub" / "out").symlink_to("/etc", target_is_directory=True)
    os.mkfifo(top / "pipe")
    assert await fetched(kept) == {"a": b"1" * 513, "b": b"", "sub/ü": b"x", "sub/" + "n" * 200: b"long"}
    assert await fetched(kept, "sub/ü", "b") == {"sub/ü": b"x", "b": b""}
    assert sorted(await fetched(kept, "/sub/")) == sorted(["sub/ü", "sub/" + "n" * 200])


@pytest.mark.parametrize("paths", [("nothing",), ("../..",), ("link",), ("sub/out/hostname",)])
async def test_what_is_not_there_is_refused(tmp_path: Path, kept: KeptDirectories, paths: tuple[str, ...]) -> None:
    top = leave(tmp_path, a=b"1")
    (top / "link").symlink_to("/etc/hostname")
    with pytest.raises(Refused) as refused:
        await kept.archive(KEY, paths)
    assert refused.value.code == "NoFileError"


async def test_a_tree_without_an_end_costs_few_open_directories(tmp_path: Path, kept: KeptDirectories) -> None:
    handle = os.open(leave(tmp_path), os.O_RDONLY)
    for _ in range(LEVELS_MAX * 4):
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
        os.mkdir("d", dir_fd=handle)
        below = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(handle)
    assert len(await fetched(kept)) == LEVELS_MAX


async def test_what_is_kept_is_listed_and_removed_in_time(
    tmp_path: Path, kept: KeptDirectories, clock: HandClock
) -> None:
    leave(tmp_path, a=b"12", b=b"345")
    leave(tmp_path, AttemptKey("b" * 32, 0, "worker", 0, 0), a=b"1")
    (one,) = await kept.of_job(KEY.job)
    assert (one.key, one.files, one.bytes, one.kept_until_ms) == (KEY, 2, 5, clock.at_ms + HOUR_MS)
    assert kept.expire() == 0
    kept.remove([KEY])
    assert await kept.of_job(KEY.job) == ()
    clock.at_ms += HOUR_MS
    assert kept.expire() == 1
    assert [*(tmp_path / "kept").iterdir()] == []


async def test_a_time_to_come_keeps_nothing_for_longer(tmp_path: Path, kept: KeptDirectories, clock: HandClock) -> None:
    top = leave(tmp_path, a=b"12")
    os.utime(top, (clock.at_ms, clock.at_ms))
    assert kept.expire() == 1


async def test_nothing_is_kept_on_a_full_disk(tmp_path: Path, kept: KeptDirectories) -> None:
    leave(tmp_path, a=b"12")
    assert kept.expire(is_scarce=True) == 1
    assert await kept.of_job(KEY.job) == ()
