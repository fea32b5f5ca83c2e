"""Logs of task attempts as a program reads them: the end of one, the whole of one, or each piece as it is written.

Following survives a server that is restarted or a connection that breaks: it is taken up where it was left.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import httpx

from openpai.client.model import LogPiece
from openpai.client.sse import read_events
from openpai.client.transport import Transport
from openpai.protocol.errors import Refused, Unavailable

STREAMS: Final = ("all", "stdout", "stderr", "runtime")
TRIES_IN_A_ROW: Final = 8


@dataclass(frozen=True, slots=True)
class AttemptLogs:
    """The logs of one task attempt: the name of each stream and where it is read."""

    transport: Transport
    uris: dict[str, str]

    def _uri(self, stream: str) -> str:
        uri = self.uris.get(stream)
        if uri is None:
            raise Refused("NoTaskLogError", f"this task has no log {stream!r}", f"there are: {', '.join(self.uris)}")
        # Our token goes to our server only; an address elsewhere is asked for on this one, which knows the path.
        parsed = httpx.URL(uri)
        return parsed.raw_path.decode() if parsed.is_absolute_url else uri

    def text(self, stream: str = "all") -> str:
        """Return everything that is kept of a stream."""
        return self.transport.send("GET", self._uri(stream)).text

    def tail(self, stream: str = "all") -> str:
        """Return the last 16 KiB of a stream."""
        return self.transport.send("GET", self._uri(stream), params={"tail-mode": "true"}).text

    def follow(self, stream: str = "all") -> Iterator[LogPiece]:
        """Yield what the task writes until its attempt is over, beginning with what it wrote so far."""
        uri = self._uri(stream)
        last_id: str | None = None
        failures = 0
        while True:
            headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
            try:
                with self.transport.stream(uri, params={"follow": "true"}, headers=headers) as response:
                    for event in read_events(response.iter_lines()):
                        failures = 0
                        last_id = event.id or last_id
                        if event.event == "end":
                            return
                        if event.event == "log":
                            yield _piece(event.data)
                # A server that is stopped ends its streams in good order, without the event `end`.
                raise httpx.RemoteProtocolError("the stream ended early")
            except httpx.TransportError as error:
                failures += 1
                if failures >= TRIES_IN_A_ROW:
                    raise self.transport.gave_up(error) from error
            except Unavailable:
                failures += 1
                if failures >= TRIES_IN_A_ROW:
                    raise
            self.transport.pause(failures)


def _piece(data: str) -> LogPiece:
    document = json.loads(data)
    return LogPiece(str(document["stream"]), int(document["offset"]), str(document["text"]))
