"""Server-Sent Events, read line by line: the format in which the platform streams logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event; `id` is what to send as Last-Event-ID to go on after it."""

    event: str
    data: str
    id: str | None


@dataclass(slots=True)
class EventReader:
    """Makes events of lines; comments (keep-alives) and unfinished events are dropped."""

    _kind: str = ""
    _data: list[str] = field(default_factory=list)
    _last_id: str | None = None

    def take(self, line: str) -> ServerSentEvent | None:
        """Take one line and return the event it completes, if any."""
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


def read_events(lines: Iterable[str]) -> Iterator[ServerSentEvent]:
    """Yield each complete event of a stream of lines."""
    reader = EventReader()
    for line in lines:
        if (event := reader.take(line)) is not None:
            yield event
