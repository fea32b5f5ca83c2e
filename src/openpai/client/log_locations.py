"""The addresses of the logs of a task attempt."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import httpx

from openpai.client.calls_core import Call, as_text
from openpai.client.model.reading import Document
from openpai.protocol.errors import Refused

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

    def text(
        self, stream: str, lines: int | None = None, *, timestamps: bool = False, since_ms: int | None = None
    ) -> Call[str]:
        """Return the call for all that is kept of a stream, for its last lines, or for lines since a time."""
        asked = {"tail-lines": lines, "since": since_ms, "timestamps": "true" if timestamps else None}
        params = {name: str(value) for name, value in asked.items() if value is not None}
        return Call("GET", self.uri(stream), as_text, params, base="")

    def tail(self, stream: str) -> Call[str]:
        """Return the call for the last 16 KiB of a stream."""
        return Call("GET", self.uri(stream), as_text, {"tail-mode": "true"}, base="")
