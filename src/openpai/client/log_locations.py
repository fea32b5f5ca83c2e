"""Where the logs of a task attempt are read."""

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
    """Where each stream of one task attempt is read."""

    uris: dict[str, str]

    @classmethod
    def read(cls, document: Document) -> LogPlaces:
        """Return the places the server names."""
        return cls({place["name"]: place["uri"] for place in document["locations"]})

    def uri(self, stream: str) -> str:
        """Return the address of a stream on our server; raise NoTaskLogError for one that is not there."""
        uri = self.uris.get(stream)
        if uri is None:
            raise Refused("NoTaskLogError", f"this task has no log {stream!r}", f"there are: {', '.join(self.uris)}")
        # Our token goes to our server only, which knows the path; the ticket in the address is for those without one.
        path = httpx.URL(uri).raw_path.partition(b"?")[0].decode()
        # A gateway's part of it is in the address of our server already.
        return _GATEWAY.sub("/", path)

    def text(
        self, stream: str, lines: int | None = None, *, timestamps: bool = False, since_ms: int | None = None
    ) -> Call[str]:
        """Return the call for everything that is kept of a stream, or for its last lines, or for those since a time."""
        asked = {"tail-lines": lines, "since": since_ms, "timestamps": "true" if timestamps else None}
        params = {name: str(value) for name, value in asked.items() if value is not None}
        return Call("GET", self.uri(stream), as_text, params, base="")

    def tail(self, stream: str) -> Call[str]:
        """Return the call for the last 16 KiB of a stream."""
        return Call("GET", self.uri(stream), as_text, {"tail-mode": "true"}, base="")
