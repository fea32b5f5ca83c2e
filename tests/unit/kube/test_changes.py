"""What a slow reader of a cache gets: the newest state, and every end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from itertools import pairwise

import pytest

from openpai.kube import changes as changes_module
from openpai.kube.changes import Change, Changes
from openpai.kube.errors import KubeError
from openpai.kube.objects import PODS, Meta
from openpai.kube.objects.pods import Pod
from openpai.kube.watch_stream import frames_of, lines_of


def pod(uid: str, version: str) -> Pod:
    return Pod(metadata=Meta(name="a", uid=uid, resource_version=version))


def test_steps_of_one_object_are_one_change() -> None:
    changes: Changes[Pod] = Changes()
    first, second, third = (pod("u", version) for version in "123")
    changes.add(Change(None, first, first))
    changes.add(Change(first, second, second))
    assert changes.take() == [Change(None, second, second)]
    changes.add(Change(second, third, third))
    changes.add(Change(third, None, third))
    assert changes.take() == [Change(second, None, third)]


def test_an_object_of_the_same_name_is_another_change() -> None:
    changes: Changes[Pod] = Changes()
    old, new = pod("old", "1"), pod("new", "2")
    changes.add(Change(old, None, old))
    changes.add(Change(None, new, new))
    assert changes.take() == [Change(old, None, old), Change(None, new, new)]


def test_what_came_and_went_between_two_looks_is_reported_with_its_end() -> None:
    changes: Changes[Pod] = Changes()
    first, last = pod("u", "1"), pod("u", "2")
    changes.add(Change(None, first, first))
    changes.add(Change(first, None, last))
    [change] = changes.take()
    assert change.is_deletion
    assert change.last is last


def test_a_reader_that_never_comes_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes_module, "UNSEEN_MAX", 10)
    changes: Changes[Pod] = Changes()
    seen = pod("seen", "0")
    changes.add(Change(seen, None, seen))
    for number in range(50):
        found = pod(f"u{number}", "1")
        changes.add(Change(None, found, found))
        changes.add(Change(found, None, found))
    assert len(changes) == 10
    assert changes.dropped == 41
    # The end of what the reader knows is never dropped.
    assert changes.take()[0].last is seen


async def streamed(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ((b"a\nb\n",), [b"a", b"b"]),
        ((b"a", b"b\n", b"c"), [b"ab"]),
        ((b"a\n", b"\n\n", b"b\n"), [b"a", b"b"]),
        (tuple(b"%c" % byte for byte in b"one\ntwo\n"), [b"one", b"two"]),
        ((b"x" * 3_000_000, b"y" * 3_000_000 + b"\nz\n"), [b"x" * 3_000_000 + b"y" * 3_000_000, b"z"]),
    ],
)
async def test_a_stream_is_cut_at_newlines_only(chunks: tuple[bytes, ...], lines: list[bytes]) -> None:
    assert [line async for line in lines_of(streamed(*chunks), "watch pods")] == lines


async def test_a_stream_without_newlines_ends() -> None:
    with pytest.raises(KubeError, match="larger than"):
        [line async for line in lines_of(streamed(*[b"x" * 2**20] * 100), "watch pods")]


FRAME = (3).to_bytes(4, "big") + b"abc"


@pytest.mark.parametrize(("parts_of", "chunk"), [(lines_of, b"abc\n" * 100), (frames_of, FRAME * 100)])
async def test_others_have_their_turns_while_a_burst_of_events_is_read(
    parts_of: Callable[[AsyncIterator[bytes], str], AsyncGenerator[bytes]], chunk: bytes
) -> None:
    read: list[bytes] = []
    turns: list[int] = []

    async def others() -> None:
        while len(read) < 100:
            turns.append(len(read))
            await asyncio.sleep(0)

    turning = asyncio.create_task(others())
    async for part in parts_of(streamed(chunk), "watch pods"):
        read.append(part)  # noqa: PERF401  # one by one, as the other task counts them
    await turning
    assert max(after - before for before, after in pairwise([0, *turns, 100])) <= 20


def test_unknown_fields_are_ignored() -> None:
    found = PODS.decoder.decode(
        b'{"metadata": {"name": "a", "managedFields": [1]}, "spec": {"new": {}}, "other": null}'
    )
    assert found == Pod(metadata=Meta(name="a"))
