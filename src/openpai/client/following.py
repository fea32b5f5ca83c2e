"""What to request after a broken connection or a restart of the server: the rest of a followed log, or of a file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import httpx

from openpai.client.reading import LogPiece
from openpai.client.retry import TRIES, pause_s, unreachable
from openpai.protocol.errors import Unavailable

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

TRIES_IN_A_ROW: Final = 8


@dataclass(slots=True)
class Follower:
    """The position in the log that is read from `uri`."""

    url: str
    uri: str
    is_over: bool = False
    _last_id: str | None = None
    _failures: int = 0

    def request(self) -> dict[str, Any]:
        """Return the headers of a request that continues at this position."""
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": self._last_id} if self._last_id else {})
        return {"url": self.uri, "params": {"follow": "true"}, "headers": headers}

    def take(self, event: ServerSentEvent) -> LogPiece | None:
        """Return the piece of the log in an event; None for other events, such as the end of the log."""
        self._failures = 0
        self._last_id = event.id or self._last_id
        self.is_over = event.event == "end"
        return _piece(event.data) if event.event == "log" else None

    def ended_early(self) -> float:
        """Return how long to wait after a stream ended cleanly without the event `end`."""
        # A server that is stopping ends its streams like this.
        return self.failed(httpx.RemoteProtocolError("the stream ended early"))

    def failed(self, error: httpx.TransportError | Unavailable) -> float:
        """Return how long to wait after a failure; raise Unavailable after too many in a row."""
        self._failures += 1
        if self._failures >= TRIES_IN_A_ROW:
            if isinstance(error, Unavailable):
                raise error
            raise unreachable(self.url, error) from error
        return pause_s(self._failures)


def _piece(data: str) -> LogPiece:
    document = json.loads(data)
    return LogPiece(str(document["stream"]), int(document["offset"]), str(document["text"]))


class Fetched:
    """The number of bytes received of a file, and its version."""

    def __init__(self) -> None:
        self.size = 0
        self._version: str | None = None
        self._size_before = 0
        self._tries = 0

    def headers(self) -> dict[str, str]:
        """Return the headers that request the rest."""
        return {"Range": f"bytes={self.size}-"} if self.size else {}

    def pause_s(self, url: str, error: httpx.TransportError) -> float:
        """Return how long to wait before requesting the rest; raise Unavailable after several tries without data."""
        self._tries = 1 if self.size > self._size_before else self._tries + 1
        self._size_before = self.size
        if self._tries >= TRIES:
            raise unreachable(url, error) from error
        return pause_s(self._tries)

    def check(self, response: httpx.Response) -> None:
        """Raise Unavailable if the rest does not belong to the received part."""
        version = response.headers.get("ETag")
        is_rest = response.status_code == 206 or self.size == 0
        if not is_rest or (self.size and version != self._version):
            raise Unavailable("the file changed while it was downloaded", "download it again")
        self._version = version
