"""Followed logs as events: whole characters, exact offsets, and comments in silence."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpai.api.sse import END, KEEP_ALIVE, Characters, LogEvents, log_events, positions
from openpai.ports.logs import LogChunk
from openpai.protocol.errors import Refused, Unavailable


@given(st.text(), st.lists(st.integers(0, 60)), st.integers(0, 10**6))
def test_text_survives_being_cut_anywhere(text: str, cuts: list[int], start: int) -> None:
    data = text.encode()
    edges = sorted({0, len(data), *(cut for cut in cuts if cut <= len(data))})
    characters = Characters(start)
    taken = [characters.take(data[one:other]) for one, other in itertools.pairwise(edges)]
    assert "".join(piece.text for piece in taken) == text
    for piece in taken:
        assert data[piece.offset - start : piece.end - start].decode() == piece.text
    assert characters.take(b"", is_last=True).text == ""


@given(st.lists(st.binary(max_size=9)))
def test_any_bytes_become_text_and_every_byte_is_counted(parts: list[bytes]) -> None:
    characters = Characters(0)
    taken = [characters.take(part) for part in parts] + [characters.take(b"", is_last=True)]
    assert "".join(piece.text for piece in taken) == b"".join(parts).decode("utf-8", "replace")
    assert taken[-1].end == sum(map(len, parts))
    assert all(one.end == other.offset for one, other in itertools.pairwise(taken))


def read(event: bytes) -> tuple[str, dict[str, object]]:
    lines = dict(line.split(": ", 1) for line in event.decode().strip().split("\n"))
    assert lines["event"] == "log"
    return lines["id"], json.loads(lines["data"])


def test_an_event_has_the_offset_of_every_stream_after_it() -> None:
    events = LogEvents({"stdout": 5, "stderr": 0})
    id_, data = read(events.of(LogChunk("stdout", 5, b"line\n\nline", 15)))
    assert (id_, data) == ("stdout=15,stderr=0", {"stream": "stdout", "offset": 5, "text": "line\n\nline"})
    assert events.of(LogChunk("stderr", 0, b"\xe2\x82", 2)) == b""
    id_, data = read(events.of(LogChunk("stdout", 15, b"!", 16)))
    assert id_ == "stdout=16,stderr=0"
    id_, data = read(events.of(LogChunk("stderr", 2, b"\xac", 3)))
    assert (id_, data) == ("stdout=16,stderr=3", {"stream": "stderr", "offset": 0, "text": "€"})
    assert positions(id_) == {"stdout": 16, "stderr": 3}


@pytest.mark.parametrize("id_", [None, "", "nonsense", "stdout=", "stdout=-1", "../x=4", "stdout=" + "9" * 19])
def test_an_id_that_is_not_ours_starts_nowhere(id_: str | None) -> None:
    assert all(offset < 10**18 for offset in positions(id_).values())
    assert positions(id_) == {} or id_ == "stdout=" + "9" * 19


async def chunks_of(*parts: bytes | Exception | asyncio.Event) -> AsyncGenerator[LogChunk, None]:
    at = 0
    for part in parts:
        if isinstance(part, Exception):
            raise part
        if isinstance(part, asyncio.Event):
            await part.wait()
            continue
        yield LogChunk("stdout", at, part, at + len(part))
        at += len(part)


async def yes() -> bool:
    return True


async def no() -> bool:
    return False


async def events_of(chunks: AsyncIterator[LogChunk], keep_alive_s: float = 10) -> list[bytes]:
    return [event async for event in log_events(chunks, {"stdout": 0}, keep_alive_s, yes)]


async def test_a_stream_ends_with_its_unfinished_character_and_the_end() -> None:
    last = (await events_of(chunks_of(b"ok", b"\xe2")))[-1]
    assert last.endswith(END)
    assert read(last.removesuffix(END)) == ("stdout=3", {"stream": "stdout", "offset": 2, "text": "�"})


async def test_a_stream_that_breaks_off_does_not_say_it_is_over() -> None:
    events = await events_of(chunks_of(b"ok", Unavailable("the server is stopping")))
    assert len(events) == 1
    assert b"event: end" not in events[0]


async def test_logs_that_vanish_end_the_stream() -> None:
    assert (await events_of(chunks_of(b"ok", Refused("NoTaskLogError", "gone"))))[-1] == END


async def test_comments_are_sent_in_silence() -> None:
    quiet = asyncio.Event()
    events = log_events(chunks_of(b"one", quiet, b"two"), {"stdout": 0}, 0.01, yes)
    assert b'"one"' in await anext(events)
    assert [await anext(events) for _ in range(3)] == [KEEP_ALIVE] * 3
    quiet.set()
    rest = [event async for event in events if event != KEEP_ALIVE]
    assert b'"two"' in rest[0]
    assert rest[-1] == END


@pytest.mark.parametrize("parts", [(b"one", asyncio.Event()), (b"one",)])
async def test_a_reader_who_loses_the_right_gets_no_more(parts: tuple[bytes | asyncio.Event, ...]) -> None:
    events = log_events(chunks_of(*parts, b"two"), {"stdout": 0}, 0.0 if len(parts) == 1 else 0.01, no)
    assert not any(b"two" in event or b"event: end" in event for event in [event async for event in events])


async def test_a_reader_that_goes_away_closes_what_it_read_from() -> None:
    closed = asyncio.Event()

    async def chunks() -> AsyncGenerator[LogChunk, None]:
        try:
            yield LogChunk("stdout", 0, b"x", 1)
            await asyncio.Event().wait()
        finally:
            closed.set()

    events = log_events(chunks(), {"stdout": 0}, 0.01, yes)
    await anext(events)
    assert await anext(events) == KEEP_ALIVE
    await events.aclose()
    assert closed.is_set()
