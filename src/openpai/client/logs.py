"""Logs of task attempts for programs: the end of a log, a whole log, or each piece as it is written.

Following survives restarts of the server and broken connections: it continues where it was.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

import httpx

from openpai.client.calls_core import Call, as_text, asks, iterates
from openpai.client.connection import Connection
from openpai.client.model.reading import Document
from openpai.client.model.tasks import LogPiece
from openpai.protocol.errors import Refused

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
        asked = {"tail-lines": lines, "since": since_ms, "timestamps": "true" if timestamps else None}
        params = {name: str(value) for name, value in asked.items() if value is not None}
        return Call("GET", self.places.uri(stream), as_text, params, base="")

    @asks
    def tail(self, stream: str = "all") -> Call[str]:
        """Return the last 16 KiB of a stream."""
        return Call("GET", self.places.uri(stream), as_text, {"tail-mode": "true"}, base="")

    @iterates
    def follow(self, stream: str = "all") -> AsyncGenerator[LogPiece, None]:
        """Yield what the task writes until its attempt is over, beginning with what it wrote so far."""
        return self.wire.follow(self.places.uri(stream))


class AttemptLogs(_Logs):
    """The logs of one task attempt."""

    is_blocking = True


class AsyncAttemptLogs(_Logs):
    """The logs of one task attempt, for the asynchronous client."""

    is_awaited = True
