"""A followed log as Server-Sent Events.

Each event names its stream and holds the offset of its first byte and its text. The id of an event holds the offset of
every stream after it; a client that lost its connection sends the id back and continues at those bytes. Text is never
cut inside a character. While a log is silent, comments are sent so that proxies and clients can distinguish a quiet log
from a dead connection.
"""

from __future__ import annotations

import asyncio
import codecs
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, NamedTuple

from openpai.api.answers import encoded
from openpai.ports.logs import LogChunk
from openpai.protocol.errors import Refused, Unavailable

END: Final = b"event: end\ndata: {}\n\n"
KEEP_ALIVE: Final = b": still here\n\n"
_POSITION: Final = re.compile(r"(stdout|stderr|runtime)=(\d{1,18})")
_make_decoder: Final = codecs.getincrementaldecoder("utf-8")


def cut_out(count: int) -> str:
    """Return the line in place of a part of a log that was cut out because the log grew too large."""
    return f"\n[openpai-runtime] {count:,} bytes were cut out here: the log grew beyond what is kept of it\n"


class Text(NamedTuple):
    """Whole characters of a stream, beginning at byte `offset` and ending before byte `end`."""

    offset: int
    end: int
    text: str


class Characters:
    """Decodes the bytes of one stream; an incomplete character waits for its remaining bytes."""

    def __init__(self, offset: int) -> None:
        self._end = offset
        self._decoder = _make_decoder("replace")

    @property
    def end(self) -> int:
        """Return the offset after the decoded text, and the offset after all bytes received."""
        return self._end + len(self._decoder.getstate()[0])

    def take(self, data: bytes, *, is_last: bool = False) -> Text:
        """Return the text that `data` completes, which may be empty. Bytes that are not UTF-8 are replaced."""
        offset = self._end
        held = len(self._decoder.getstate()[0])
        text = self._decoder.decode(data, is_last)
        self._end = offset + held + len(data) - len(self._decoder.getstate()[0])
        return Text(offset, self._end, text)


def positions(last_event_id: str | None) -> dict[str, int]:
    """Return the offset of each stream after the event with this id; streams that it does not name are absent."""
    return {stream: int(offset) for stream, offset in _POSITION.findall(last_event_id or "")}


class LogEvents:
    """The events of one reader."""

    def __init__(self, offsets: dict[str, int]) -> None:
        self._at = dict(offsets)
        self._characters = {stream: Characters(offset) for stream, offset in offsets.items()}

    def of(self, chunk: LogChunk) -> bytes:
        """Return the events for a piece of a log; nothing when it completes no character."""
        characters = self._characters[chunk.stream]
        gap = b""
        if chunk.offset > characters.end:
            rest = characters.take(b"", is_last=True)
            gap = self._event(chunk.stream, rest)
            message = Text(rest.end, chunk.offset, cut_out(chunk.offset - rest.end))
            gap += self._event(chunk.stream, message)
            characters = self._characters[chunk.stream] = Characters(chunk.offset)
        return gap + self._event(chunk.stream, characters.take(chunk.data))

    def rest(self) -> bytes:
        """Return events for characters that will never be completed."""
        ends = ((stream, characters.take(b"", is_last=True)) for stream, characters in self._characters.items())
        return b"".join(self._event(stream, text) for stream, text in ends)

    def _event(self, stream: str, text: Text) -> bytes:
        self._at[stream] = text.end
        if not text.text:
            return b""
        place = ",".join(f"{name}={offset}" for name, offset in self._at.items())
        data = encoded({"stream": stream, "offset": text.offset, "text": text.text})
        return b"id: %b\nevent: log\ndata: %b\n\n" % (place.encode(), data)


async def log_events(
    chunks: AsyncIterator[LogChunk],
    offsets: dict[str, int],
    keep_alive_s: float,
    may_read: Callable[[], Awaitable[bool]],
) -> AsyncGenerator[bytes, None]:
    """Yield a followed log as events. Unless the last event is `end`, the client should connect again.

    The reader's right is checked every `keep_alive_s`: a log may grow for weeks, and a login may end meanwhile.
    """
    events = LogEvents(offsets)
    now_s = asyncio.get_running_loop().time
    asked_at_s = now_s()
    try:
        async with aclosing(_with_signs_of_life(chunks, keep_alive_s)) as pieces:
            async for chunk in pieces:
                if chunk is None or now_s() - asked_at_s >= keep_alive_s:
                    if not await may_read():
                        return
                    asked_at_s = now_s()
                event = KEEP_ALIVE if chunk is None else events.of(chunk)
                if event:
                    yield event
    except Unavailable:
        return
    except Refused:
        # The attempt ended without logs, or they were removed while they were read: nothing will follow.
        pass
    yield events.rest() + END


async def _with_signs_of_life(
    chunks: AsyncIterator[LogChunk], keep_alive_s: float
) -> AsyncGenerator[LogChunk | None, None]:
    """Yield the chunks, and None whenever none arrived for a while."""
    waiting: asyncio.Task[LogChunk | None] | None = None
    try:
        while True:
            if waiting is None:
                waiting = asyncio.ensure_future(_next(chunks))
            await asyncio.wait({waiting}, timeout=keep_alive_s)
            if not waiting.done():
                yield None
                continue
            chunk, waiting = waiting.result(), None
            if chunk is None:
                return
            yield chunk
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait({waiting})
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()


async def _next(chunks: AsyncIterator[LogChunk]) -> LogChunk | None:
    return await anext(chunks, None)
