"""What a kubelet that begins a new part of a log takes along is never passed over in silence."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.integration.test_kubernetes_log_shipping import (
    KEY,
    START,
    Pods,
    quick,
    root,
    runtime,
    shipper,
    stdout,
    until,
)

__all__ = ["quick", "root"]


async def test_a_gap_is_shown_where_it_is(root: Path) -> None:
    pods = Pods()
    pods.write("p", b"one\n")
    async with shipper(pods, root) as ships:
        ships.ship(KEY, "p")
        await until(lambda: stdout(root) == b"one\n")
    pods.write("p", b"nine\n", rotate=True)
    async with shipper(pods, root) as ships:
        ships.ship(KEY, "p")
        await until(lambda: stdout(root) == b"one\nnine\n")
        await until(lambda: b"lines may be missing here" in runtime(root))


async def test_an_end_that_went_with_an_old_part_is_not_taken_for_a_whole_log(root: Path) -> None:
    """A task that writes faster than its log is read may end before the kubelet comes to the newest part."""
    pods = Pods()
    pods.write("p", *(b"%d\n" % number for number in range(100)))
    async with shipper(pods, root) as ships:
        ships.ship(KEY, "p")
        await until(lambda: stdout(root).endswith(b"99\n"))
        pods.write("p", rotate=True)
        pods.end("p")
        ships.ended(KEY)
        assert await ships.finished(KEY, 60)
    assert b"lines may be missing here" in runtime(root)


async def test_a_container_that_is_removed_with_its_log_is_said_once(root: Path) -> None:
    pods = Pods()
    pods.write("p", b"one\n")
    async with shipper(pods, root) as ships:
        ships.ship(KEY, "p")
        await until(lambda: stdout(root) == b"one\n")
        pods.lines["p"] = []
        pods.answer = b"unable to retrieve container logs for containerd://1"
        pods.end("p")
        ships.ended(KEY)
        assert await ships.finished(KEY, 60)
    notes = runtime(root)
    assert b"the node reports: unable to retrieve" in notes
    assert b"lines may be missing" not in notes


async def test_the_first_part_of_a_log_is_known_from_its_first_line(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openpai.backends.kubernetes.log_reading.PART_BYTES", 100)
    pods = Pods()
    pods.write("p", b"short\n")
    async with shipper(pods, root) as ships:
        ships.ship(KEY, "p")
        await until(lambda: stdout(root) == b"short\n")
        assert pods.looks == 0
        pods.write("p", b"x" * 200 + b"\n", rotate=True)
        await until(lambda: bool(runtime(root)))
    assert b"the node began a new part" in runtime(root)


async def test_a_followed_log_says_where_its_node_began_a_new_part(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openpai.backends.kubernetes.log_reading.PART_BYTES", 100)
    pods = Pods()
    long = b"x" * 200 + b"\n"
    pods.write("p", long)
    async with shipper(pods, root) as ships:
        ships.ship(KEY, "p")
        await until(lambda: pods.looks == 1)
        pods.write("p", long)
        await until(lambda: pods.looks == 2)
        assert not (root / KEY.path() / "runtime.log").exists()
        # The last line of the old part is written when the kubelet has left it.
        pods.lines["p"].append((START + pods.seconds, b"lost\n"))
        pods.write("p", b"first of a new part" + long, rotate=True)
        began = datetime.fromtimestamp(START + pods.seconds, UTC).isoformat(timespec="milliseconds")
        notice = f"the node began a new part of this log at {began}: it may have lost lines of that moment".encode()
        await until(lambda: (root / KEY.path() / "runtime.log").exists())
        await until(lambda: notice in runtime(root))
        pods.write("p", long)
        pods.end("p")
        ships.ended(KEY)
        assert await ships.finished(KEY, 60)
    assert runtime(root).count(b"new part") == 1
    assert stdout(root) == long + long + b"first of a new part" + long + long
