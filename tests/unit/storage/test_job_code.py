"""Code that is sent along with jobs: sent once, kept as long as a job needs it, within a quota, and nothing else."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from openpai.ports.code import CodeOwner
from openpai.protocol.code import CodeEntry, digest_of, write_list
from openpai.protocol.errors import InvalidParameters, Refused
from openpai.storage.job_code import KEPT_S, YOUNG_S, CodeFiles

ANN, BOB = CodeOwner("ann", 1), CodeOwner("bob", 1)


class World:
    """A store whose jobs are over when the test says so."""

    def __init__(self, root: Path, quota_bytes: int = 1 << 20) -> None:
        self.root = root
        self.running: set[str] = set()
        self.store = CodeFiles(root, self.is_over, quota_bytes=quota_bytes)

    async def is_over(self, job: str) -> bool:
        return job not in self.running

    async def send(self, owner: CodeOwner, **files: bytes) -> str:
        """Send a code as a client does; return its name."""
        entries = [CodeEntry(name, sha(content), len(content), name == "run") for name, content in files.items()]
        lacking = await self.store.missing(owner, [each.sha256 for each in entries])
        content = write_list(entries)
        wanted = [files[each.name] for each in entries if each.sha256 in lacking]
        await self.store.add(owner, digest_of(content), pieces(frames(content, *wanted)))
        return digest_of(content)

    def age(self, seconds: float) -> None:
        """Let everything be older."""
        for path in self.root.rglob("*"):
            found = path.stat()
            os.utime(path, (found.st_atime, found.st_mtime - seconds))


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def frames(*contents: bytes, lie: bytes = b"") -> bytes:
    """Return contents as they are sent; the last one may be another than it says."""
    output = [*contents[:-1], lie] if lie else contents
    pairs = zip(contents, output, strict=True)
    return gzip.compress(b"".join(f"{sha(each)} {len(each)}\n".encode() + sent for each, sent in pairs), mtime=0)


async def pieces(content: bytes, size: int = 100) -> AsyncIterator[bytes]:
    for at in range(0, len(content), size):
        yield content[at : at + size]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_tasks_get_what_was_sent(world: World) -> None:
    entries = [
        CodeEntry("a/run", sha(b"go"), 2, True),
        CodeEntry("data", sha(b"12"), 2),
        CodeEntry("l", target="a/run"),
    ]
    content = write_list(entries)
    kept = await world.store.add(ANN, digest_of(content), pieces(frames(content, b"go", b"12")))
    assert (kept.files, kept.bytes) == (3, 4)
    await world.store.hold(ANN, kept.digest, "job-1")
    with tarfile.open(world.store.pack(kept.digest)) as archive:
        members = {one.name: (one.mode, one.linkname, one.uid) for one in archive}
        assert members == {"a/run": (0o755, "", 0), "data": (0o644, "", 0), "l": (0o644, "a/run", 0)}


async def test_only_what_changed_is_sent_again(world: World) -> None:
    await world.send(ANN, a=b"one", b=b"two")
    assert await world.store.missing(ANN, [sha(b"one"), sha(b"three"), sha(b"three")]) == [sha(b"three")]
    await world.send(ANN, a=b"one", b=b"three")


async def test_a_user_cannot_take_or_find_the_contents_of_another(world: World) -> None:
    digest = await world.send(ANN, a=b"secret of ann")
    assert await world.store.missing(BOB, [sha(b"secret of ann")]) == [sha(b"secret of ann")]
    # Nor can a later user of the same name.
    for other in (BOB, CodeOwner("ann", 2)):
        with pytest.raises(Refused, match="is not on this server") as caught:
            await world.store.hold(other, digest, "job")
        assert caught.value.code == "NoCodeError"
        content = write_list([CodeEntry("a", sha(b"secret of ann"), 13)])
        with pytest.raises(InvalidParameters, match="1 of 1 contents of the code were not sent"):
            await world.store.add(other, digest_of(content), pieces(frames(content)))


LIST = write_list([CodeEntry("a", sha(b"go"), 2)])


@pytest.mark.parametrize(
    ("digest", "content", "message"),
    [
        (digest_of(LIST), b"no gzip", "did not arrive whole"),
        (digest_of(LIST), frames(LIST, b"go")[:-20], "did not arrive whole"),
        (digest_of(LIST), gzip.compress(b"x" * 1000, mtime=0), "did not arrive whole"),
        ("0" * 64, frames(LIST, b"go"), "does not have the name"),
        (digest_of(LIST), frames(LIST, b"other"), "not in its list"),
        (digest_of(LIST), frames(LIST, b"go", b"go"), "not in its list"),
        (digest_of(LIST), frames(LIST, b"go", lie=b"no"), "not what its hash says"),
        (digest_of(LIST), gzip.compress(f"{digest_of(LIST)} -1\n".encode() + LIST, mtime=0), "not in its list"),
        (digest_of(LIST), gzip.compress(b"../x 2\n", mtime=0), "does not have the name"),
    ],
)  # fmt: skip
async def test_what_does_not_fit_together_is_refused_and_leaves_nothing(
    world: World, digest: str, content: bytes, message: str
) -> None:
    with pytest.raises(InvalidParameters) as caught:
        await world.store.add(ANN, digest, pieces(content))
    assert message in caught.value.message
    left = [path for path in world.root.rglob("*") if path.is_file() and path.name != sha(b"go")]
    assert left == []


async def test_code_goes_a_week_after_its_last_use_unless_a_job_needs_it(world: World) -> None:
    old, held, new = [await world.send(ANN, a=name) for name in (b"old", b"held", b"new")]
    world.running.add("job-1")
    await world.store.hold(ANN, held, "job-1")
    world.age(KEPT_S + YOUNG_S)
    await world.store.hold(ANN, new, "job-2")
    assert await world.store.expire() == 1
    assert await world.store.missing(ANN, [sha(b"old"), sha(b"held"), sha(b"new")]) == [sha(b"old")]
    with pytest.raises(Refused):
        world.store.pack(old)
    world.store.pack(held)
    world.running.clear()
    world.age(KEPT_S + YOUNG_S)
    assert await world.store.expire() == 2
    assert not [path for path in world.root.rglob("*") if path.is_file()]


async def test_a_full_quota_takes_the_oldest_code_that_no_job_needs(tmp_path: Path) -> None:
    world = World(tmp_path, quota_bytes=2500)
    needed = await world.send(ANN, a=b"1" * 1000)
    world.running.add("job-1")
    await world.store.hold(ANN, needed, "job-1")
    unused = await world.send(ANN, a=b"2" * 1000)
    world.age(2 * YOUNG_S)
    newest = await world.send(ANN, a=b"3" * 1000)
    world.store.pack(needed)
    await world.store.hold(ANN, newest, "job-2")
    with pytest.raises(Refused):
        await world.store.hold(ANN, unused, "job-3")
    # Another user has a quota of their own.
    await world.send(BOB, a=b"4" * 2000)
    world.running.add("job-2")
    with pytest.raises(Refused, match="your code takes 0 MiB") as caught:
        await world.send(ANN, a=b"5" * 1000)
    assert caught.value.status == 413
    with pytest.raises(Refused, match="larger than"):
        await world.send(ANN, a=b"6" * 3000)


async def test_a_pack_that_went_is_made_again(world: World) -> None:
    digest = await world.send(ANN, a=b"one")
    os.unlink(world.store.pack(digest))  # noqa: PTH108
    await world.store.hold(ANN, digest, "job-1")
    world.store.pack(digest)
