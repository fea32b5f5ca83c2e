"""What is loaded at once and stays is not visited by later collections, and is collected when it is replaced."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from itertools import count

import pytest

from openpai.system import garbage
from openpai.system.garbage import collect_forever, importing, loading


class Node:
    """An object in a cycle."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def frozen() -> Iterator[None]:
    yield
    # As the collector was before; see tests/conftest.py.
    gc.freeze()


@pytest.fixture
def first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing have been loaded before."""
    monkeypatch.setattr(garbage, "_loads", count())


@pytest.mark.usefixtures("first")
def test_what_was_loaded_is_not_visited_later_and_new_garbage_is() -> None:
    with loading():
        assert not gc.isenabled()
        loaded = [Node() for _ in range(1000)]
    assert gc.isenabled()
    assert not any(isinstance(found, Node) for found in gc.get_objects())

    gone = weakref.ref(Node())
    gc.collect()
    assert gone() is None
    assert loaded


@pytest.mark.usefixtures("first")
def test_what_is_imported_is_not_visited_at_once_nor_when_much_is_loaded() -> None:
    collected: list[str] = []
    note = lambda phase, _: collected.append(phase)  # noqa: E731
    gc.collect()
    gc.callbacks.append(note)
    try:
        with importing():
            imported = [Node() for _ in range(1000)]
        with loading():
            assert not any(isinstance(found, Node) for found in gc.get_objects())
    finally:
        gc.callbacks.remove(note)
    assert collected == []
    assert imported


@pytest.mark.slow
def test_what_an_earlier_load_left_is_collected_before_the_next() -> None:
    with loading():
        earlier = Node()
    gone = weakref.ref(earlier)
    del earlier
    gc.collect()
    assert gone() is not None

    with loading():
        assert gone() is None


async def test_full_collections_are_rare_and_regular(monkeypatch: pytest.MonkeyPatch) -> None:
    before = gc.get_threshold()
    collected = asyncio.Event()
    monkeypatch.setattr("openpai.system.garbage.FULL_EVERY_S", 0.001)
    monkeypatch.setattr("openpai.system.garbage.TRIM_EVERY_S", 0.001)
    monkeypatch.setattr(gc, "collect", collected.set)
    collecting = asyncio.create_task(collect_forever())
    try:
        async with asyncio.timeout(60):
            await collected.wait()
        assert gc.get_threshold()[2] > 1000 * before[2]
        # No pause in between visits more than some ten thousand objects.
        assert gc.get_threshold()[0] * (gc.get_threshold()[1] + 1) <= 20_000
    finally:
        collecting.cancel()
        gc.set_threshold(*before)


async def test_free_pages_are_given_back_regularly(monkeypatch: pytest.MonkeyPatch) -> None:
    before = gc.get_threshold()
    trimmed = asyncio.Event()
    monkeypatch.setattr("openpai.system.garbage.TRIM_EVERY_S", 0.001)
    monkeypatch.setattr("openpai.system.garbage.trim", trimmed.set)
    collecting = asyncio.create_task(collect_forever())
    try:
        async with asyncio.timeout(60):
            await trimmed.wait()
    finally:
        collecting.cancel()
        gc.set_threshold(*before)


@pytest.mark.usefixtures("first")
def test_a_load_that_fails_leaves_the_collector_on() -> None:
    with pytest.raises(ValueError, match="failed"), loading():
        raise ValueError("failed")
    assert gc.isenabled()
