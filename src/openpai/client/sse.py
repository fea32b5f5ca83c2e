"""Server-Sent Events, read as they arrive: the format in which the platform streams logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event; `id` is what to send as Last-Event-ID to go on after it."""

    event: str
    data: str
    id: str | None


@dataclass(slots=True)
class EventReader:
    """Makes events of what arrives; comments (keep-alives) and unfinished events are dropped."""

    _begun: bytes = b""
    _kind: str = ""
    _data: list[str] = field(default_factory=list)
    _last_id: str | None = None

    def feed(self, arrived: bytes) -> Iterator[ServerSentEvent]:
        """Yield each event that is complete with what arrived."""
        # Only these end a line here: a log may hold any other of the characters at which Python splits lines.
        *lines, self._begun = (self._begun + arrived).split(b"\n")
        for line in lines:
            if (event := self._take(line.removesuffix(b"\r").decode(errors="replace"))) is not None:
                yield event

    def _take(self, line: str) -> ServerSentEvent | None:
        if not line:
            event = ServerSentEvent(self._kind or "message", "\n".join(self._data), self._last_id)
            has_data = bool(self._data)
            self._kind, self._data = "", []
            return event if has_data else None
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._kind = value
            case "data":
                self._data.append(value)
            case "id":
                self._last_id = value
            case _:
                # A comment has an empty name, and the format says that unknown fields are to be ignored.
                pass
        return None
