"""The logs of a task attempt: list, read and follow."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Final, NamedTuple
from urllib.parse import quote

from fastapi import Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response, StreamingResponse

from openpai.api.answers import TEXT, Reply, reply
from openpai.api.bodies import invalid
from openpai.api.context import context_of, needs, needs_or_ticket
from openpai.api.job_access import job_for
from openpai.api.job_attempts import TASK, LogPath, TaskAttemptPath
from openpai.api.legacy_paths import log_manager_of
from openpai.api.log_search import SearchQuery, search, searching
from openpai.api.log_times import Clock, merged, since, stamped, tail_of, timed_lines
from openpai.api.routing import Router
from openpai.api.services import Services
from openpai.api.sessions import Caller
from openpai.api.shapes.tasks import logs_path
from openpai.api.sse import cut_out, log_events, positions
from openpai.ports.logs import LogReader
from openpai.ports.queries import TaskAttemptRow
from openpai.protocol.errors import Refused
from openpai.protocol.shown_text import ShownText
from openpai.wire.tasks import LogLocations, LogSearch

router = Router("logs")
TAIL_BYTES: Final = 16 * 1024
CHUNK_BYTES: Final = 64 * 1024
ALL: Final = "all"
_EVENT: Final = (
    'id: stdout=3\nevent: log\ndata: {"stream":"stdout","offset":0,"text":"hi\\n"}\n\nevent: end\ndata: {}\n\n'
)
_HEADERS: Final = {
    "X-Log-Offset": "of a single log: offset of the answer's first byte",
    "X-Log-End": "of a single log: offset after the answer's last byte, counting parts that were cut out",
    "X-Log-Size": "of a single log: its size in bytes",
}
NAMES: Final = ("stdout", "stderr", ALL, "runtime")
_PLACE: Final = f"{TASK}/{{attempt}}/logs"


class LogQuery(BaseModel):
    """Which part of a log."""

    model_config = ConfigDict(frozen=True)

    tail_mode: bool = Field(False, alias="tail-mode", description="only the last 16 KiB")
    tail_mode_too: bool = Field(False, alias="tailMode", description="the same")
    tail_lines: int | None = Field(
        None,
        alias="tail-lines",
        ge=0,
        le=2**31,
        description="only the last lines; 8 MiB at most",
    )
    follow: bool = Field(False, description="Server-Sent Events until the attempt is over")
    offset: int | None = Field(None, ge=-(2**62), le=2**62, description="first byte; negative counts from the end")
    limit: int | None = Field(None, ge=0, le=2**62, description="the largest number of bytes to return")
    timestamps: bool = Field(False, description="each line after the time at which it was seen in the file")
    since: int | None = Field(None, ge=0, le=2**53, description="only what was written since then, in ms")
    plain: bool = Field(
        False,
        description="as a terminal would show it: without control sequences, and of each progress bar its last state",
    )
    download: bool = Field(False, description="as a file to save")
    ticket: str = Field("", max_length=4000, description="instead of a login: the ticket in the address of a log")

    @property
    def is_tail(self) -> bool:
        """Return whether only the end is requested."""
        return self.tail_mode or self.tail_mode_too


@router.serves(f"GET {_PLACE}", "List the logs of a task attempt", "NoJobConfigError NoTaskLogError")
async def list_logs(
    request: Request,
    caller: Annotated[Caller, needs("job.logs")],
    place: Annotated[TaskAttemptPath, Depends()],
    query: Annotated[LogQuery, Query()],
) -> Reply[LogLocations]:
    """Return the logs of a task attempt with the address of each.

    Each address works without a login for two minutes, while the login that requested it is valid. OpenPAI's gateway
    forwards it to this server, and this server answers it itself as well.
    """
    row, found = await place.find(request, caller)
    gateway = log_manager_of(request.scope)
    tickets, tail = context_of(request).tickets, "&tail-mode=true" if query.is_tail else ""
    paths = {name: f"{logs_path(row, found)}/{name}" for name in NAMES}
    uris = (
        (name, f"{gateway}{quote(path, safe='/~')}?ticket={tickets.ticket(caller, path)}{tail}")
        for name, path in paths.items()
    )
    return reply(LogLocations(locations=[{"name": name, "uri": uri} for name, uri in uris]))


@router.serves(
    f"GET {_PLACE}/{{name}}",
    "Read or follow a log",
    "NoJobConfigError NoTaskLogError",
    media={"text/plain": "epoch 1 of 10\n", "text/event-stream": _EVENT},
    headers=_HEADERS,
)
async def get_log(
    request: Request,
    caller: Annotated[Caller, needs_or_ticket("job.logs")],
    place: Annotated[LogPath, Depends()],
    query: Annotated[LogQuery, Query()],
) -> Response:
    """Return a log as text, or follow it: `stdout`, `stderr`, `runtime`, or `all` for the first two together.

    A line marks where a part of a log that grew too large was cut out; offsets count the removed bytes, too.
    With `timestamps`, each line follows the time at which it was first seen in the file: a task writes its log
    itself, and the platform checks about once a second. The streams of `all` are then merged by these times; otherwise
    one follows the other.

    A followed log is a stream of events `log` with data `{stream, offset, text}` and one event `end` when the attempt
    is over; with the header Last-Event-ID it continues after that event.
    """
    row, found = await place.find(request, caller)
    streams = streams_of(place.name)
    if place.name == ALL and (query.offset is not None or query.limit is not None):
        raise invalid("offset and limit go with stdout, stderr or runtime")
    if query.tail_lines is not None and (query.follow or query.is_tail or query.offset is not None):
        raise invalid("tail-lines goes with neither follow, tail-mode nor offset")
    is_timed = query.timestamps or query.since is not None
    if is_timed and (query.follow or (query.since is not None and (query.is_tail or query.tail_lines or query.offset))):
        raise invalid("timestamps and since do not go with follow, nor since with tail-mode, tail-lines or offset")
    if query.follow and (query.plain or query.download):
        raise invalid("plain and download do not go with follow")
    await context_of(request).services.find_log(found.key)
    if query.follow:
        return await _followed(request, found, streams, query, partial(_may_read, request, caller, row.id))
    services = context_of(request).services
    if found.ended_at_ms is not None:
        await services.logs.arrived(found.key)
    return await _read(services, found, place.name, query)


def streams_of(name: str) -> tuple[str, ...]:
    """Return the streams that a log is made of; raise NoTaskLogError for a log that does not exist."""
    if name not in NAMES:
        raise Refused("NoTaskLogError", f"there is no log named {name!r}", f"the logs are: {', '.join(NAMES)}")
    return ("stdout", "stderr") if name == ALL else (name,)


@router.serves(
    f"GET {_PLACE}/{{name}}/search",
    "Search a log",
    "NoJobConfigError NoTaskLogError InvalidParametersError TooManyRequestsError",
)
async def search_log(
    request: Request,
    caller: Annotated[Caller, needs("job.logs")],
    place: Annotated[LogPath, Depends()],
    query: Annotated[SearchQuery, Query()],
) -> Reply[LogSearch]:
    """Return the lines of a log in which a text or an expression is found.

    A request searches at most 2 GiB. `next` of the answer continues the search where it stopped; without it, all of
    the log was searched. `all` searches stdout, then stderr.
    """
    _, found = await place.find(request, caller)
    streams = streams_of(place.name)
    services = context_of(request).services
    await services.find_log(found.key)
    if found.ended_at_ms is not None:
        await services.logs.arrived(found.key)
    with searching(caller.user):
        return reply(await search(services, found, streams, query))


class _Part(NamedTuple):
    """The bytes of a stream from `start` to `end`; the stream is `size` long."""

    stream: str
    start: int
    end: int
    size: int


async def _read(services: Services, found: TaskAttemptRow, name: str, query: LogQuery) -> Response:
    """Return the present content of the streams: one after the other, or merged by their times."""
    logs, now_ms, streams = services.logs, services.clock.now_ms(), streams_of(name)
    clocks: dict[str, Clock] = {}
    if query.timestamps or query.since is not None:
        moments = await logs.moments(found.key)
        clocks = {stream: Clock(moments, stream, found.ended_at_ms or now_ms) for stream in streams}
    if query.tail_lines is not None:
        parts = await _last_lines(logs, found, streams, query.tail_lines)
    else:
        parts = [await _part(logs, found, stream, query) for stream in streams]
    if query.since is not None:
        starts = [await since(logs, found.key, part.stream, clocks[part.stream], query.since) for part in parts]
        parts = [part._replace(start=start) for part, start in zip(parts, starts, strict=True)]
    headers = {}
    if len(parts) == 1:
        part = parts[0]
        # Where a part was cut out, the client cannot derive the next offset from the length of the text.
        headers = {"X-Log-Offset": str(part.start), "X-Log-End": str(max(part.start, part.end))}
        headers["X-Log-Size"] = str(part.size)
    if query.download:
        key = found.key
        headers["Content-Disposition"] = f'attachment; filename="{key.role}-{key.index}-{name}.log"'
    if query.timestamps:
        contents = _stamped(logs, found, parts, clocks, is_plain=query.plain)
    else:
        contents = _contents(logs, found, parts)
        contents = _plain(contents) if query.plain else contents
    return StreamingResponse(contents, 200, headers, TEXT)


async def _stamped(
    logs: LogReader, found: TaskAttemptRow, parts: list[_Part], clocks: Mapping[str, Clock], *, is_plain: bool
) -> AsyncGenerator[bytes, None]:
    lines = [timed_lines(logs, found.key, part.stream, (part.start, part.end), clocks[part.stream]) for part in parts]
    async for some in merged(lines) if len(lines) > 1 else lines[0]:
        yield stamped(some, is_plain=is_plain)


async def _plain(contents: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    decoder, shown = getincrementaldecoder("utf-8")("replace"), ShownText()
    async for data in contents:
        yield shown.take(decoder.decode(data)).encode()
    yield (shown.take(decoder.decode(b"", final=True)) + shown.finish()).encode()


async def _last_lines(logs: LogReader, found: TaskAttemptRow, streams: tuple[str, ...], lines: int) -> list[_Part]:
    """Return the last lines of the streams, one stream after the other."""
    parts: list[_Part] = []
    for stream in reversed(streams):
        tail = await tail_of(logs, found.key, stream, lines)
        lines -= tail.lines
        parts.insert(0, _Part(stream, tail.start, tail.size, tail.size))
    return parts


async def _part(logs: LogReader, found: TaskAttemptRow, stream: str, query: LogQuery) -> _Part:
    offset = query.offset if query.offset is not None else (-TAIL_BYTES if query.is_tail else 0)
    look = await logs.read(found.key, stream, offset, 0)
    limit = look.size if query.limit is None else query.limit
    start = look.offset if offset < 0 else offset
    return _Part(stream, start, min(start + limit, look.size), look.size)


async def _contents(logs: LogReader, found: TaskAttemptRow, parts: list[_Part]) -> AsyncGenerator[bytes, None]:
    for part in parts:
        at = part.start
        while at < part.end:
            chunk = await logs.read(found.key, part.stream, at, min(CHUNK_BYTES, part.end - at))
            if chunk.offset > at:
                yield cut_out(min(chunk.offset, part.end) - at).encode()
                at = chunk.offset
                continue
            if not chunk.data:
                break
            at += len(chunk.data)
            yield chunk.data


async def _may_read(request: Request, caller: Caller, job: str) -> bool:
    """Return whether a follower may still read: the login or a right may have ended, or the job may be deleted."""
    try:
        now = await context_of(request).sessions.holder(caller.token.digest)
        await job_for(request, replace(now, action=caller.action), job)
    except Refused:
        return False
    return True


async def _followed(
    request: Request,
    found: TaskAttemptRow,
    streams: tuple[str, ...],
    query: LogQuery,
    may_read: Callable[[], Awaitable[bool]],
) -> Response:
    """Return a stream of events, from the client's last event, from its offset, or from the start or the tail."""
    logs = context_of(request).services.logs
    if found.ended_at_ms is not None:
        # Report missing logs of an ended attempt now, while the answer can still be an error.
        await logs.arrived(found.key)
        await logs.streams(found.key)
    offsets = {stream: max(query.offset or 0, 0) for stream in streams}
    if query.is_tail or (query.offset or 0) < 0:
        offsets = {stream: await _tail(logs, found, stream, query) for stream in streams}
    at = positions(request.headers.get("last-event-id"))
    offsets = {stream: at.get(stream, offset) for stream, offset in offsets.items()}
    chunks = logs.follow(found.key, streams, dict(offsets))
    events = log_events(chunks, offsets, context_of(request).services.settings.keep_alive_s, may_read)
    # A proxy that buffers answers would delay a live log.
    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(events, 200, headers, "text/event-stream")


async def _tail(logs: LogReader, found: TaskAttemptRow, stream: str, query: LogQuery) -> int:
    """Return where the tail begins, at the start of a character."""
    try:
        chunk = await logs.read(found.key, stream, query.offset or -TAIL_BYTES, 4)
    except Refused:
        return 0
    rest = chunk.data.lstrip(bytes(range(0x80, 0xC0))) if chunk.offset else chunk.data
    return chunk.offset + len(chunk.data) - len(rest)
