"""Server-Sent Events, read line by line: the format in which the platform streams logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event; `id` is what to send as Last-Event-ID to go on after it."""

    event: str
    data: str
    id: str | None


def read_events(lines: Iterable[str]) -> Iterator[ServerSentEvent]:
    """Yield each complete event of a stream of lines; comments (keep-alives) and unfinished events are dropped."""
    kind = ""
    data: list[str] = []
    last_id: str | None = None
    for line in lines:
        if not line:
            if data:
                yield ServerSentEvent(kind or "message", "\n".join(data), last_id)
            kind, data = "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                kind = value
            case "data":
                data.append(value)
            case "id":
                last_id = value
            case _:
                # A comment has an empty name, and the format says that unknown fields are to be ignored.
                continue
