"""Remote write: what is sent, what waits for a store that is away, and what is given up."""

from __future__ import annotations

import asyncio
import math
import struct
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress

import cramjam
import httpx
import pytest

from openpai.metrics import remote_write
from openpai.metrics.remote_write import ROUNDS_MAX, RemoteWriter
from openpai.protocol.errors import Refused
from openpai.series.labels import Labels
from openpai.series.rounds import Round

Sample = tuple[dict[str, str], float, int]
JOB = Labels.of({"job_name": "ann~jöb", "gpu": "0"})
NODE = Labels.of({"node": "n1"})


def fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Yield the fields of a message of protocol buffers."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            yield number, varint()
            continue
        length = 8 if kind == 1 else varint()
        yield number, message[at : at + length]
        at += length


def read(body: bytes) -> list[Sample]:
    """Return the samples of a message."""
    found = []
    for _, series in fields(bytes(cramjam.snappy.decompress_raw(body))):
        labels, (value, at_ms) = {}, (0.0, 0)
        for number, part in fields(series):  # type: ignore[arg-type]
            content = dict(fields(part))  # type: ignore[arg-type]
            if number == 1:
                name, text = content[1], content[2]
                labels[name.decode()] = text.decode()  # type: ignore[union-attr]
            else:
                value, at_ms = struct.unpack("<d", content[1])[0], int(content[2])  # type: ignore[arg-type]
        assert list(labels) == sorted(labels)
        found.append((labels, value, at_ms))
    return found


class Store:
    """A store that answers as the test says."""

    def __init__(self) -> None:
        self.answers: list[int | Exception] = []
        self.taken: list[list[Sample]] = []
        self.headers = httpx.Headers()
        self.asked = 0
        self.pauses: list[float] = []

    async def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        self.headers = request.headers
        output = self.answers.pop(0) if self.answers else 204
        if isinstance(output, Exception):
            raise output
        if output < 300:
            self.taken.append(read(await request.aread()))
        return httpx.Response(output)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    @asynccontextmanager
    async def writer(self, **more: int) -> AsyncIterator[RemoteWriter]:
        found = RemoteWriter(
            "https://pai:pw@store/api/v1/write", httpx.MockTransport(self.answer), sleep=self.sleep, **more
        )
        running = asyncio.create_task(found.run())
        yield found
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@pytest.fixture
def store() -> Store:
    return Store()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110  a state of the object under test
            await asyncio.sleep(0.001)


def a_round(at_ms: int, **values: float) -> Round:
    return Round(at_ms, {JOB: values or {"pai_job_gpus_held": 4.0}})


async def test_gauges_and_totals_are_sent_with_their_labels_and_time(store: Store) -> None:
    now = Round(
        1_700_000_000_123, {JOB: {"task_gpu_percent": 12.5}, NODE: {"pai_node_disk_read_bytes_total": 3.0}},
        {NODE: {"pai_node_disk_read_bytes_total": 300.0}},
    )  # fmt: skip
    async with store.writer() as writer:
        writer.take(now)
        await until(lambda: bool(store.taken))
    assert store.taken == [[
        ({"__name__": "task_gpu_percent", "gpu": "0", "job_name": "ann~jöb"}, 12.5, 1_700_000_000_123),
        ({"__name__": "pai_node_disk_read_bytes_total", "node": "n1"}, 300.0, 1_700_000_000_123),
    ]]  # fmt: skip
    assert store.headers["content-encoding"] == "snappy"
    assert store.headers["x-prometheus-remote-write-version"] == "0.1.0"
    assert store.headers["authorization"].startswith("Basic ")


async def test_a_series_that_ended_is_marked_once(store: Store) -> None:
    async with store.writer() as writer:
        for at_ms, labels in ((1000, JOB), (2000, NODE), (3000, NODE)):
            writer.take(Round(at_ms, {labels: {"pai_node_load1": 1.0}}))
            await until(lambda at_ms=at_ms: len(store.taken) == at_ms // 1000)  # type: ignore[misc]
    second = {tuple(labels): value for labels, value, _ in store.taken[1]}
    assert second[("__name__", "node")] == 1.0
    ended = second[("__name__", "gpu", "job_name")]
    assert math.isnan(ended)
    assert struct.pack("<d", ended) == (0x7FF0000000000002).to_bytes(8, "little")
    assert len(store.taken[2]) == 1


async def test_a_round_of_many_series_is_sent_in_parts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_write, "SERIES_AT_ONCE", 2)
    nodes = {Labels.of({"node": f"n{number}"}): {"pai_node_load1": 1.0} for number in range(5)}
    async with store.writer() as writer:
        writer.take(Round(1, nodes))
        await until(lambda: len(store.taken) == 3)
    assert [len(part) for part in store.taken] == [2, 2, 1]


async def test_what_a_store_that_is_away_did_not_take_comes_later_in_order(store: Store) -> None:
    store.answers = [503, httpx.ConnectError("away"), 429, httpx.ReadTimeout("slow")]
    async with store.writer() as writer:
        for at_ms in (1, 2, 3):
            writer.take(a_round(at_ms))
        await until(lambda: len(store.taken) == 3)
        assert next(iter(writer.readings())).values["pai_remote_write_waiting_bytes"] == 0
    assert [part[0][2] for part in store.taken] == [1, 2, 3]
    assert store.pauses == [1.0, 2.0, 4.0, 8.0]
    assert writer.dropped == 0


@pytest.mark.parametrize("status", [400, 401, 301])
async def test_what_is_refused_is_given_up_and_does_not_hold_up_the_rest(store: Store, status: int) -> None:
    store.answers = [status]
    async with store.writer() as writer:
        writer.take(a_round(1, pai_job_gpus_held=4.0, pai_job_cpus_held=2.0))
        await until(lambda: writer.dropped == 2)
        assert next(iter(writer.readings())).values["pai_remote_write_dropped_samples_total"] == 2
        writer.take(a_round(2))
        await until(lambda: bool(store.taken))
    assert [part[0][2] for part in store.taken] == [2]
    assert store.pauses == []


async def test_what_waits_has_a_bound_and_the_oldest_goes_first(store: Store) -> None:
    store.answers = [503] * 1_000_000
    async with store.writer(waiting_bytes_max=200) as writer:
        for at_ms in range(1, 11):
            writer.take(a_round(at_ms))
            await until(lambda: not writer._rounds)
        await until(lambda: writer.dropped > 0)
        assert writer._waiting_bytes <= 200
        store.answers = []
        await until(lambda: not writer._bodies)
    assert store.taken[-1][0][2] == 10
    assert len(store.taken) + writer.dropped == 10


def test_rounds_that_come_while_a_message_is_under_way_have_a_bound_and_are_counted() -> None:
    writer = RemoteWriter("http://store")
    for at_ms in range(ROUNDS_MAX + 2):
        writer.take(a_round(at_ms, pai_job_gpus_held=4.0, pai_job_cpus_held=2.0))
    assert ([each.at_ms for each in writer._rounds], writer.dropped) == ([*range(2, ROUNDS_MAX + 2)], 4)


def test_the_library_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    with pytest.raises(Refused) as refusal:
        RemoteWriter("http://store")
    assert "openpai[remote-write]" in refusal.value.advice
