"""When and how the logs of pods are read, and what is known of their growth."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from openpai.backends.kubernetes.log_lines import MARK
from openpai.backends.kubernetes.log_shipping import LogShipper
from openpai.lifecycle.model import AttemptKey
from tests.integration.test_kubernetes_log_shipping import KEY, Pods, root, runtime, shipper, stdout, until

__all__ = ["root"]
OTHER = AttemptKey("job", 0, "other", 0, 0)


def end(pods: Pods, ships: LogShipper, *keys: AttemptKey) -> None:
    """Let containers write a line and end."""
    for key in keys:
        pods.write(key.role, b"line\n")
        pods.end(key.role)
        ships.ship(key, key.role)
        ships.ended(key)


async def test_a_log_that_ended_waits_until_it_is_asked_for(root: Path) -> None:
    """Those of a gang end together, just when the next gang is to be decided about."""
    pods = Pods()
    async with shipper(pods, root, streams=0, poll_every_s=1000) as ships:
        end(pods, ships, KEY, OTHER)
        assert await ships.finished(OTHER, 60)
        assert pods.requests == 1
        assert not ships.is_complete(KEY)
        assert await ships.finished(KEY, 60)
    assert stdout(root) == stdout(root, OTHER) == b"line\n"


async def test_a_log_that_ended_and_is_not_asked_for_is_read_a_moment_later(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openpai.backends.kubernetes.log_shipping.ENDS_AFTER_S", 0.05)
    pods = Pods()
    async with shipper(pods, root, streams=0, poll_every_s=1000) as ships:
        end(pods, ships, KEY)
        await until(lambda: ships.is_complete(KEY))
    assert stdout(root) == b"line\n"


async def test_the_log_of_a_pod_that_goes_is_awaited_and_not_read_before_its_turn(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openpai.backends.kubernetes.log_shipping.ENDS_AFTER_S", 0.3)
    pods = Pods()
    async with shipper(pods, root, streams=0, poll_every_s=1000) as ships:
        end(pods, ships, KEY)
        ended_at_s = asyncio.get_running_loop().time()
        assert await ships.finished(KEY, 60, hurries=False)
        assert asyncio.get_running_loop().time() > ended_at_s + 0.2
    assert stdout(root) == b"line\n"


async def test_a_stream_that_is_free_waits_before_it_follows_another_log(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openpai.backends.kubernetes.log_shipping.FREED_AFTER_S", 0.3)
    pods = Pods()
    async with shipper(pods, root, streams=1, poll_every_s=1000) as ships:
        ships.ship(KEY, KEY.role)
        await until(lambda: pods.open == 1)
        pods.write(OTHER.role, b"line\n")
        ships.ship(OTHER, OTHER.role)
        pods.end(KEY.role)
        ships.ended(KEY)
        assert await ships.finished(KEY, 60)
        free_at_s = asyncio.get_running_loop().time()
        await until(lambda: stdout(root, OTHER) == b"line\n")
        assert asyncio.get_running_loop().time() > free_at_s + 0.2
        assert pods.open == 1


async def test_logs_that_end_leave_fewer_turns_to_others(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openpai.backends.kubernetes.log_shipping.POLLS_PER_S", 10.0)
    monkeypatch.setattr("openpai.backends.kubernetes.log_shipping.POLLS_LEAST_PER_S", 1.0)
    pods = Pods()
    ended = [AttemptKey("job", 0, f"ended-{number}", 0, 0) for number in range(9)]
    async with shipper(pods, root, streams=0, poll_every_s=0.01) as ships:
        pods.write(KEY.role, b"line\n")
        ships.ship(KEY, KEY.role)
        await until(lambda: stdout(root) == b"line\n")
        read_at_s = asyncio.get_running_loop().time()
        pods.write(OTHER.role, b"line\n")
        ships.forget(KEY)
        ships.ship(OTHER, OTHER.role)
        end(pods, ships, *ended)
        assert all(await asyncio.gather(*(ships.finished(key, 60) for key in ended)))
        assert stdout(root, OTHER) == b""
        await until(lambda: stdout(root, OTHER) == b"line\n")
        assert asyncio.get_running_loop().time() > read_at_s + 0.7


async def test_streams_that_become_free_together_are_opened_at_the_rate_of_turns(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openpai.backends.kubernetes.log_shipping.FREED_AFTER_S", 0.0)
    monkeypatch.setattr("openpai.backends.kubernetes.log_shipping.POLLS_PER_S", 5.0)
    monkeypatch.setattr("openpai.backends.kubernetes.log_shipping.POLLS_LEAST_PER_S", 5.0)
    pods = Pods()
    keys = [AttemptKey("job", 0, f"task-{number}", 0, 0) for number in range(6)]
    async with shipper(pods, root, streams=3, poll_every_s=1000) as ships:
        for key in keys:
            ships.ship(key, key.role)
        await until(lambda: pods.open == 3)
        end(pods, ships, *keys[:3])
        assert all(await asyncio.gather(*(ships.finished(key, 60) for key in keys[:3])))
        free_at_s, before = asyncio.get_running_loop().time(), pods.requests
        await until(lambda: pods.open == 3)
        assert asyncio.get_running_loop().time() > free_at_s + 0.3
        assert pods.requests - before <= 3


async def test_a_log_that_begins_among_many_does_not_wait_for_all_of_them(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openpai.backends.kubernetes.log_shipping.POLLS_PER_S", 50.0)
    pods = Pods()
    keys = [AttemptKey("job", 0, f"task-{number}", 0, 0) for number in range(60)]
    async with shipper(pods, root, streams=0, poll_every_s=0.01) as ships:
        for key in keys:
            ships.ship(key, key.role)
        await until(lambda: pods.requests >= len(keys))
        pods.write(KEY.role, b"line\n")
        before = pods.requests
        ships.ship(KEY, KEY.role)
        await until(lambda: stdout(root) == b"line\n")
        assert pods.requests - before < len(keys) / 2


@pytest.mark.parametrize("streams", [0, 1])
async def test_a_log_that_is_longer_than_an_answer_is_whole(
    root: Path, monkeypatch: pytest.MonkeyPatch, streams: int
) -> None:
    monkeypatch.setattr("openpai.backends.kubernetes.log_reading.ANSWER_BYTES", 1000)
    pods = Pods()
    lines = [MARK + b"task starts\n", *(b"line %d\n" % number for number in range(100))]
    pods.write("p", *lines[:50])
    async with shipper(pods, root, streams=streams, poll_every_s=0.01) as ships:
        ships.ship(KEY, "p")
        await until(lambda: stdout(root).endswith(lines[49]))
        pods.write("p", *lines[50:], b"no end of line")
        pods.end("p")
        ships.ended(KEY)
        assert await ships.finished(KEY, 60)
    assert stdout(root) == b"".join(lines[1:]) + b"no end of line"
    assert runtime(root) == lines[0]


async def test_which_logs_grow_is_known(root: Path) -> None:
    pods, grown = Pods(), set[AttemptKey]()
    pods.write("p", b"one\n")
    pods.lines["q"] = []
    async with shipper(pods, root) as ships:
        ships.note_growth(grown)
        ships.ship(KEY, "p")
        ships.ship(OTHER, "q")
        await until(lambda: grown == {KEY})
        grown.clear()
        await ships.note(OTHER, "q", "what its processes do now")
        assert grown == {OTHER}
        grown.clear()
        pods.write("p", b"no end of line")
        pods.end("p")
        ships.ended(KEY)
        assert await ships.finished(KEY, 60)
        assert grown == {KEY}


async def test_a_log_that_is_forgotten_at_once_keeps_no_stream(root: Path) -> None:
    pods = Pods()
    pods.write(OTHER.role, b"line\n")
    async with shipper(pods, root, streams=1, poll_every_s=1000) as ships:
        ships.ship(KEY, KEY.role)
        ships.forget(KEY)
        ships.ship(OTHER, OTHER.role)
        await until(lambda: stdout(root, OTHER) == b"line\n")
        assert pods.open == 1


async def test_a_log_that_is_forgotten_just_when_it_is_read_keeps_no_reader(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openpai.backends.kubernetes.log_shipping.ENDS_AT_ONCE", 1)
    pods = Pods()
    async with shipper(pods, root, streams=0, poll_every_s=1000) as ships:
        end(pods, ships, KEY, OTHER)
        waits = asyncio.create_task(ships.finished(KEY, 60))
        await asyncio.sleep(0)
        ships.forget(KEY)
        assert await ships.finished(OTHER, 1)
        waits.cancel()
    assert stdout(root, OTHER) == b"line\n"
