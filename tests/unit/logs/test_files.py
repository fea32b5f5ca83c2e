"""Reading and following logs: whole, in parts, while they grow, by one reader or by many."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from openpai.lifecycle.model import AttemptKey
from openpai.logs.files import FileLogs
from openpai.logs.reading import CHUNK_BYTES, HOLE_MIN, Piece, read_piece
from openpai.logs.watching import Watcher
from openpai.ports.logs import LogChunk, LogReader
from openpai.protocol.errors import Refused, Unavailable
from tests.rights import locked, open_directory

KEY = AttemptKey("a" * 32, 0, "worker", 0, 0)
PERIOD_S = 0.01


class Place:
    """A directory of logs, and which attempts are over."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.over: set[AttemptKey] = set()
        self.logs = FileLogs(root, self.over.__contains__, period_s=PERIOD_S)

    def write(self, data: bytes, stream: str = "stdout", key: AttemptKey = KEY) -> None:
        path = self.root / key.path() / f"{stream}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)

    def follow(self, *streams: str, key: AttemptKey = KEY, **offsets: int) -> AsyncIterator[LogChunk]:
        return self.logs.follow(key, streams or ("stdout",), offsets)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(tmp_path)
    yield place
    await place.logs.close()


async def everything(chunks: AsyncIterator[LogChunk]) -> bytes:
    return b"".join([chunk.data async for chunk in chunks])


@pytest.mark.parametrize(("size", "is_cut"), [(100, False), (HOLE_MIN - 1, False), (HOLE_MIN, True)])
def test_a_short_end_that_a_file_system_does_not_store_is_no_cut(tmp_path: Path, size: int, is_cut: bool) -> None:
    log = tmp_path / "stdout.log"
    log.touch()
    os.truncate(log, size)
    assert read_piece(str(log), 0, 100) == (Piece(size, b"", size) if is_cut else Piece(0, b"\0" * 100, size))


def test_it_is_a_log_reader(tmp_path: Path) -> None:
    reader: LogReader = FileLogs(tmp_path, lambda _: True)
    assert reader


@pytest.mark.parametrize(
    ("offset", "limit", "start", "data"),
    [
        (0, 100, 0, b"0123456789"),
        (3, 2, 3, b"34"),
        (-4, 100, 6, b"6789"),
        (-99, 3, 0, b"012"),
        (50, 5, 50, b""),
        (0, 0, 0, b""),
    ],
)
async def test_a_part_is_what_was_asked_for(place: Place, offset: int, limit: int, start: int, data: bytes) -> None:
    place.write(b"0123456789")
    assert await place.logs.read(KEY, "stdout", offset, limit) == LogChunk("stdout", start, data, 10)


async def test_a_stream_without_output_is_empty(place: Place) -> None:
    place.write(b"x")
    assert await place.logs.read(KEY, "stderr", 0, 10) == LogChunk("stderr", 0, b"", 0)
    assert await place.logs.streams(KEY) == ("stdout",)


async def test_an_attempt_without_logs_is_refused(place: Place) -> None:
    for asked in (place.logs.read(KEY, "stdout", 0, 1), place.logs.streams(KEY)):
        with pytest.raises(Refused) as refused:
            await asked
        assert refused.value.code == "NoTaskLogError"
    place.over.add(KEY)
    with pytest.raises(Refused) as refused:
        await everything(place.follow())
    assert refused.value.code == "NoTaskLogError"


@pytest.mark.parametrize(
    "key",
    [
        AttemptKey("..", 0, "worker", 0, 0),
        AttemptKey("a/../..", 0, "worker", 0, 0),
        AttemptKey("a" * 32, 0, "../../..", 0, 0),
        AttemptKey("a" * 32, 0, "", 0, 0),
        AttemptKey("a" * 32, 0, "x\0y", 0, 0),
        AttemptKey("a" * 32, -1, "worker", 0, 0),
    ],
)
async def test_no_name_leads_out_of_the_logs(place: Place, key: AttemptKey) -> None:
    for asked in (place.logs.read(key, "stdout", 0, 1), place.logs.streams(key), everything(place.follow(key=key))):
        with pytest.raises(Refused) as refused:
            await asked
        assert refused.value.code == "NoTaskLogError"


@pytest.mark.parametrize("stream", ["", "../stdout", "task", "stdout.log", "all"])
async def test_no_stream_leads_to_another_file(place: Place, stream: str) -> None:
    place.write(b"x")
    for asked in (place.logs.read(KEY, stream, 0, 1), everything(place.follow(stream))):
        with pytest.raises(Refused) as refused:
            await asked
        assert refused.value.code == "NoTaskLogError"


async def test_a_link_or_a_pipe_is_no_log(place: Place, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"the secret of the server")
    place.write(b"fine")
    directory = place.root / KEY.path()
    (directory / "stderr.log").symlink_to(secret)
    os.mkfifo(directory / "runtime.log")
    for stream in ("stderr", "runtime"):
        assert (await place.logs.read(KEY, stream, 0, 100)).data == b""
    place.over.add(KEY)
    assert await everything(place.follow("stdout", "stderr", "runtime")) == b"fine"


async def test_a_log_that_its_task_locked_is_empty() -> None:
    with open_directory() as root:
        place = Place(root)
        place.write(b"fine", "stderr")
        place.write(b"hidden")
        place.over.add(KEY)
        with locked(root / KEY.path() / "stdout.log"):
            assert (await place.logs.read(KEY, "stdout", 0, 100)).data == b""
            assert await everything(place.follow("stdout", "stderr")) == b"fine"
        with locked(root / KEY.path()), pytest.raises(Refused):
            await everything(place.follow("stdout"))
        await place.logs.close()


async def test_following_what_is_over_gives_all_of_it_and_ends(place: Place) -> None:
    text = os.urandom(3 * CHUNK_BYTES + 17)
    place.write(text)
    place.over.add(KEY)
    chunks = [chunk async for chunk in place.follow()]
    assert b"".join(chunk.data for chunk in chunks) == text
    assert max(len(chunk.data) for chunk in chunks) <= CHUNK_BYTES
    assert [chunk.offset for chunk in chunks] == [CHUNK_BYTES * number for number in range(4)]
    assert {chunk.size for chunk in chunks} == {len(text)}


async def test_following_starts_at_the_given_place(place: Place) -> None:
    place.write(b"0123456789")
    place.write(b"abc", "stderr")
    place.over.add(KEY)
    chunks = [chunk async for chunk in place.follow("stdout", "stderr", stdout=7, stderr=3)]
    assert chunks == [LogChunk("stdout", 7, b"789", 10)]


async def test_what_is_written_later_comes_later(place: Place) -> None:
    place.write(b"one")
    chunks = place.follow("stdout", "stderr")
    assert (await anext(chunks)).data == b"one"
    waiting = asyncio.ensure_future(anext(chunks))
    place.write(b"two", "stderr")
    assert await waiting == LogChunk("stderr", 0, b"two", 3)
    waiting = asyncio.ensure_future(anext(chunks))
    place.write(b"three")
    assert await waiting == LogChunk("stdout", 3, b"three", 8)
    place.over.add(KEY)
    assert await everything(chunks) == b""


async def test_following_may_begin_before_the_task_does(place: Place) -> None:
    chunks = place.follow()
    waiting = asyncio.ensure_future(anext(chunks))
    await asyncio.wait({waiting}, timeout=3 * PERIOD_S)
    assert not waiting.done()
    place.write(b"at last")
    assert (await waiting).data == b"at last"


async def test_the_last_words_of_a_task_are_never_lost(place: Place) -> None:
    for attempt in range(30):
        key = AttemptKey("a" * 32, 0, "worker", 0, attempt)
        reading = asyncio.ensure_future(everything(place.follow(key=key)))
        await asyncio.wait({reading}, timeout=PERIOD_S * (attempt % 3))
        for part in (b"some words, ", b"last words"):
            place.write(part, key=key)
        place.over.add(key)
        assert await reading == b"some words, last words"


async def test_a_thousand_readers_of_one_log_cost_one_read_each_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0
    first_look = Watcher._look

    async def counted(self: Watcher, *arguments: object) -> None:
        nonlocal reads
        reads += 1
        await first_look(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Watcher, "_look", counted)
    place.write(b"x" * 1000)
    readings = [asyncio.ensure_future(everything(place.follow())) for _ in range(1000)]
    await asyncio.wait(readings, timeout=4 * PERIOD_S)
    place.write(b"y" * 1000)
    place.over.add(KEY)
    texts = await asyncio.gather(*readings)
    assert set(texts) == {b"x" * 1000 + b"y" * 1000}
    assert reads < 500


async def test_nothing_runs_without_a_follower(place: Place) -> None:
    assert place.logs.is_idle
    place.write(b"x")
    chunks = place.logs.follow(KEY, ("stdout",), {})
    await anext(chunks)
    assert not place.logs.is_idle
    await chunks.aclose()
    watching = [task for task in asyncio.all_tasks() if task.get_name() == "look at followed logs"]
    await asyncio.wait(watching)
    assert place.logs.is_idle
    place.over.add(KEY)
    assert await everything(place.follow()) == b"x"


async def test_a_reader_that_goes_away_does_not_take_others_along(place: Place) -> None:
    place.write(b"z" * (5 * CHUNK_BYTES))
    readings = [asyncio.ensure_future(everything(place.follow())) for _ in range(10)]
    for reading in readings[::2]:
        reading.cancel()
    place.over.add(KEY)
    assert set(await asyncio.gather(*readings[1::2])) == {b"z" * (5 * CHUNK_BYTES)}


async def test_more_logs_than_questions_per_round_all_end(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openpai.logs.watching.QUESTIONS_PER_ROUND", 3)
    keys = [AttemptKey("a" * 32, 0, "worker", index, 0) for index in range(20)]
    for key in keys:
        place.write(b"hello", key=key)
    readings = [asyncio.ensure_future(everything(place.follow(key=key))) for key in keys]
    await asyncio.wait(readings, timeout=2 * PERIOD_S)
    place.over.update(keys)
    assert await asyncio.gather(*readings) == [b"hello"] * 20


async def test_whether_it_is_over_may_be_awaited_and_may_fail_for_a_while(tmp_path: Path) -> None:
    answers: list[bool | Exception] = [RuntimeError("the store is away"), False, True]

    async def is_over(key: AttemptKey) -> bool:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    place = Place(tmp_path)
    place.logs = FileLogs(tmp_path, is_over, period_s=PERIOD_S)
    place.write(b"x")
    with capture_logs() as logs:
        assert await everything(place.follow()) == b"x"
    assert [entry["log_level"] for entry in logs] == ["warning"]
    await place.logs.close()


async def test_a_stopping_server_breaks_streams_off(place: Place) -> None:
    place.write(b"x")
    chunks = place.follow()
    await anext(chunks)
    waiting = asyncio.ensure_future(anext(chunks))
    await asyncio.wait({waiting}, timeout=2 * PERIOD_S)
    await place.logs.close()
    with pytest.raises(Unavailable):
        await waiting
    with pytest.raises(Unavailable):
        await anext(place.follow())


async def test_the_sizes_of_many_logs_count_what_programs_printed(place: Place) -> None:
    second, third, absent = (AttemptKey("a" * 32, 0, "worker", index, 0) for index in (1, 2, 3))
    place.write(b"12345")
    place.write(b"123", "stderr")
    place.write(b"of the wrapper", "runtime")
    place.write(b"12", key=second)
    (place.root / third.path()).mkdir()
    (place.root / third.path() / "stdout.log").symlink_to(place.root / second.path() / "stdout.log")
    assert list(await place.logs.sizes([second, KEY, absent, third])) == [2, 8, 0, 0]
