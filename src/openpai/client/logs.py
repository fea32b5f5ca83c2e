"""Logs of task attempts for programs: the end of a log, a whole log, or each piece as it is written.

Following survives restarts of the server and broken connections: it continues where it was.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlencode

import httpx

from openpai.client import model
from openpai.client.calls_core import Call, as_it_came, as_text, asks, iterates, query_of
from openpai.client.connection import Connection
from openpai.client.reading import Document, LogPiece
from openpai.protocol.errors import Refused

RANGE_BYTES: Final = 8 << 20
SEARCH_S: Final = 120.0
STREAMS: Final = ("all", "stdout", "stderr", "runtime")
_GATEWAY: Final = re.compile(r"\A/(?:log-manager/[^/]+/)?(?:rest-server/)?")


@dataclass(frozen=True, slots=True)
class LogPlaces:
    """The address of each stream of one task attempt."""

    uris: dict[str, str]

    @classmethod
    def read(cls, document: Document) -> LogPlaces:
        """Return the addresses in an answer of the server."""
        return cls({place["name"]: place["uri"] for place in document["locations"]})

    def uri(self, stream: str) -> str:
        """Return the path of a stream on the server; raise NoTaskLogError if there is none."""
        uri = self.uris.get(stream)
        if uri is None:
            raise Refused("NoTaskLogError", f"this task has no log {stream!r}", f"there are: {', '.join(self.uris)}")
        # The token is sent to the client's own server only, and replaces the ticket in the address.
        path = httpx.URL(uri).raw_path.partition(b"?")[0].decode()
        # The address of the server includes the prefix of a gateway already.
        return _GATEWAY.sub("/", path)


@dataclass(frozen=True)
class _Logs:
    """The logs of one task attempt, for both clients."""

    wire: Connection
    places: LogPlaces

    @asks
    def text(
        self, stream: str = "all", *, lines: int | None = None, timestamps: bool = False, since_ms: int | None = None
    ) -> Call[str]:
        """Return all that is kept of a stream, or its last `lines` lines, at most 8 MiB of them.

        With `timestamps` each line follows the time at which it was seen; `since_ms` skips older lines.
        """
        options = {"tail-lines": lines, "since": since_ms, "timestamps": "true" if timestamps else None}
        params = {name: str(value) for name, value in options.items() if value is not None}
        return Call("GET", self.places.uri(stream), as_text, params, base="")

    @asks
    def tail(self, stream: str = "all") -> Call[str]:
        """Return the last 16 KiB of a stream."""
        return Call("GET", self.places.uri(stream), as_text, {"tail-mode": "true"}, base="")

    @iterates
    async def content(
        self, stream: str = "all", *, timestamps: bool = False, since_ms: int | None = None, plain: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """Yield all that is kept of a stream piece by piece, however large it is.

        `plain` leaves out control sequences, and all states of a progress bar but the last; otherwise see `text`. A
        single stream goes on after a broken connection.
        """
        uri = self.places.uri(stream)
        if stream != "all" and not timestamps and since_ms is None and not plain:
            async with aclosing(self._ranges(uri)) as ranges:
                async for data in ranges:
                    yield data
            return
        query = urlencode(query_of(since=since_ms, timestamps=timestamps or None, plain=plain or None))
        async with aclosing(self.wire.fetch(f"{uri}?{query}" if query else uri)) as pieces:
            async for data in pieces:
                yield data

    async def _ranges(self, uri: str) -> AsyncGenerator[bytes, None]:
        at, size = 0, None
        # A log that grows meanwhile is read as long as it was at the beginning.
        while size is None or at < size:
            params = {"offset": str(at), "limit": str(RANGE_BYTES)}
            answer = await self.wire.ask(Call("GET", uri, _as_range, params, base=""))
            yield answer.data
            # A server that does not say where the answer ends has sent all of it.
            at, size = max(answer.end, at + 1), answer.size if size is None else size

    @iterates
    async def search(
        self,
        text: str,
        stream: str = "all",
        *,
        regex: bool = False,
        ignore_case: bool = False,
        since_ms: int | None = None,
    ) -> AsyncGenerator[model.LogHit, None]:
        """Yield the lines in which a text is found, or an expression of RE2."""
        params = query_of(text=text, regex=regex, since=since_ms, limit=1000) | {
            "ignore-case": "true" if ignore_case else "false"
        }
        while True:
            call = Call("GET", f"{self.places.uri(stream)}/search", as_it_came, params, base="", within_s=SEARCH_S)
            answer = await self.wire.ask(call)
            for hit in answer["hits"]:
                yield model.LogHit.read(hit)
            if not answer["next"]:
                return
            params["next"] = answer["next"]

    @iterates
    def follow(self, stream: str = "all") -> AsyncGenerator[LogPiece, None]:
        """Yield what the task writes until its attempt is over, beginning with what it wrote so far."""
        return self.wire.follow(self.places.uri(stream))


class _Range(NamedTuple):
    data: bytes
    end: int
    size: int


def _as_range(response: httpx.Response) -> _Range:
    end, size = (int(response.headers.get(name, 0)) for name in ("X-Log-End", "X-Log-Size"))
    return _Range(response.content, end, size)


class AttemptLogs(_Logs):
    """The logs of one task attempt."""

    is_blocking = True


class AsyncAttemptLogs(_Logs):
    """The logs of one task attempt, for the asynchronous client."""

    is_awaited = True
