"""Searches the logs of a task attempt for the API: which lines, how many at once, and where to go on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from openpai.api.bodies import invalid
from openpai.api.log_times import Clock, since
from openpai.api.services import Services
from openpai.ports.logs import LogPattern
from openpai.ports.queries import TaskAttemptRow
from openpai.protocol.errors import Refused
from openpai.protocol.shown_text import shown_line
from openpai.wire.tasks import LogSearch, LogSearchHit

BYTES_MAX: Final = 2 << 30
"""How much one request searches."""
AT_ONCE_MAX: Final = 4
"""Searches of one user at a time."""
_CURSOR: Final = re.compile(r"(stdout|stderr|runtime)=(\d{1,18})")


class SearchQuery(BaseModel):
    """What to search a log for."""

    model_config = ConfigDict(frozen=True)

    text: str = Field(min_length=1, max_length=1000, description="text to search for, or an expression of RE2")
    regex: bool = Field(False, description="whether the text is an expression of RE2, which is tried on each line")
    ignore_case: bool = Field(False, alias="ignore-case", description="whether upper and lower case are the same")
    since: int | None = Field(None, ge=0, le=2**53, description="only what was written since then, in ms")
    limit: int = Field(100, ge=1, le=1000, description="the largest number of lines to return")
    next: str = Field("", max_length=40, description="`next` of the answer that this one continues")


class _Running:
    """How many searches run at the moment, by user."""

    def __init__(self) -> None:
        self.by_user: Counter[str] = Counter()


RUNNING: Final = _Running()


@contextmanager
def searching(user: str) -> Iterator[None]:
    """Count a search while it runs; raise TooManyRequestsError if the user has too many."""
    if RUNNING.by_user[user] >= AT_ONCE_MAX:
        message = f"{AT_ONCE_MAX} searches of logs by {user} are running already"
        raise Refused("TooManyRequestsError", message, "wait until one of them has ended")
    RUNNING.by_user[user] += 1
    try:
        yield
    finally:
        RUNNING.by_user[user] -= 1
        RUNNING.by_user += Counter()


async def search(services: Services, found: TaskAttemptRow, streams: tuple[str, ...], query: SearchQuery) -> LogSearch:
    """Return the lines of the streams in which a text is found, as many as one request may search for."""
    logs, key = services.logs, found.key
    moments = await logs.moments(key)
    clocks = {name: Clock(moments, name, found.ended_at_ms or services.clock.now_ms()) for name in streams}
    pattern = LogPattern(query.text, query.regex, query.ignore_case)
    first, at = _start(streams, query.next)
    hits: list[LogSearchHit] = []
    left = BYTES_MAX
    for number, stream in enumerate(streams[first:], first):
        if at == 0 and query.since is not None:
            at = await since(logs, key, stream, clocks[stream], query.since)
        part = await logs.search(key, stream, pattern, at, hits_max=query.limit - len(hits), bytes_max=left)
        for hit in part.hits:
            shown = shown_line(hit.data.decode("utf-8", "replace"))
            at_ms = clocks[stream].at_ms(hit.offset + len(hit.data))
            hits.append({"stream": stream, "offset": hit.offset, "time": at_ms, "text": shown})
        left -= max(part.at - at, 0)
        if part.at < part.size:
            return {"hits": hits, "next": f"{stream}={part.at}"}
        if number + 1 < len(streams) and (len(hits) >= query.limit or left <= 0):
            return {"hits": hits, "next": f"{streams[number + 1]}=0"}
        at = 0
    return {"hits": hits, "next": None}


def _start(streams: tuple[str, ...], cursor: str) -> tuple[int, int]:
    """Return the stream to begin with, by its number, and the offset in it."""
    if not cursor:
        return 0, 0
    place = _CURSOR.fullmatch(cursor)
    if place is None or place[1] not in streams:
        raise invalid(f"next is not from an answer about this log: {cursor!r}")
    return streams.index(place[1]), int(place[2])
