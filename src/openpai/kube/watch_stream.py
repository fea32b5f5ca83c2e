"""One watch: the stream of events of one kind, from a known version or from the beginning, until it ends.

Pods come in protobuf if the server offers it, each event with its length before it; everything else in JSON, separated
by newlines. An event may be as large as an object, 2 MiB and more, so the reader has no limit on a line.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Final, Generic

import msgspec

from openpai.kube.client import KubeClient, selectors
from openpai.kube.connection import JSON, pieces
from openpai.kube.errors import KubeError, Status, error_of
from openpai.kube.objects import protobuf
from openpai.kube.objects.kinds import Kind, T
from openpai.kube.objects.meta import PROTOBUF, Meta, metadata_of
from openpai.kube.objects.salvage import salvage

EVENT_MAX: Final = 64 * 1024 * 1024
"""More than any event: etcd holds objects of some megabytes. A stream without newlines must not fill the memory."""
_TIMEOUT_S: Final = (240.0, 480.0)
"""How long the server keeps a watch open; a range, so that the watches of many servers do not end together."""
OPENED: Final = "OPENED"
"""The event with which a stream begins that the server has accepted."""
_CHANGES: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})
INITIAL_END: Final = "k8s.io/initial-events-end"
_PROTOBUF: Final = f"{PROTOBUF};stream=watch"
_LENGTH_BYTES: Final = 4
_PER_TURN: Final = 16
"""So many events are read before others go on: a decision waits for a dozen turns of the loop, and a stream that was
slow brings a hundred events at once."""


class _Envelope(msgspec.Struct):
    type: str
    object: msgspec.Raw


class WatchEvent(msgspec.Struct, Generic[T], gc=False):
    """An event of a watch."""

    type: str
    """ADDED, MODIFIED, DELETED, BOOKMARK, or once at first OPENED."""
    metadata: Meta
    object: T | None
    """The object; None for a bookmark."""
    fault: str = ""
    """Why the object could not be read in full."""

    @property
    def ends_the_beginning(self) -> bool:
        """Return whether all objects that there were have been sent."""
        return self.type == "BOOKMARK" and self.metadata.annotation(INITIAL_END) == "true"


class WatchScope(msgspec.Struct, frozen=True):
    """Which objects of a kind are watched."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""


async def watch(
    client: KubeClient,
    kind: Kind[T],
    scope: WatchScope,
    version: str,
    *,
    quiet_s: float,
    from_beginning: bool = False,
    read: Callable[[bytes], T] | None = None,
) -> AsyncGenerator[WatchEvent[T]]:
    """Yield events after a version, or `from_beginning` all objects and then events, until the server ends the watch.

    `read` reads objects that come in protobuf. Raise KubeError if the server ends it with an error, or is quiet for
    longer than `quiet_s`.
    """
    params = {
        **selectors(scope.labels, scope.fields),
        "watch": "1",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(int(random.uniform(*_TIMEOUT_S))),  # noqa: S311
    }
    if from_beginning:
        params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    if version:
        params["resourceVersion"] = version
    doing = f"watch {kind.plural}" + (f" in {scope.namespace}" if scope.namespace else "")
    accept = f"{_PROTOBUF}, {JSON}" if (quick := protobuf.reader_of(kind.type)) is not None else JSON
    answer = await client.connection.stream(
        kind.path(scope.namespace), doing=doing, params=params, quiet_s=quiet_s, accept=accept
    )
    is_protobuf = answer.headers.get("Content-Type", "").startswith(PROTOBUF)
    parts_of = frames_of if is_protobuf else lines_of
    async with answer, aclosing(pieces(answer, doing)) as chunks, aclosing(parts_of(chunks, doing)) as parts:
        yield WatchEvent(OPENED, Meta(), None)
        async for part in parts:
            yield _event(kind, part, doing, read=(read or quick) if is_protobuf else None)


async def lines_of(chunks: AsyncIterator[bytes], doing: str) -> AsyncGenerator[bytes]:
    """Yield the lines of a stream; what follows the last newline is a part of one, and dropped."""
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for number, line in enumerate(whole, start=1):
            parts.append(line)
            if complete := b"".join(parts):
                yield complete
            parts.clear()
            size = 0
            if number % _PER_TURN == 0:
                await asyncio.sleep(0)
        if rest:
            parts.append(rest)
            size += len(rest)
            if size > EVENT_MAX:
                raise error_of(doing, 500, f"an event is larger than {EVENT_MAX} bytes".encode())


async def frames_of(chunks: AsyncIterator[bytes], doing: str) -> AsyncGenerator[bytes]:
    """Yield the parts of a stream that have their length before them; one that is not whole at the end is dropped."""
    parts: list[bytes] = []
    size, wanted = 0, _LENGTH_BYTES
    async for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size < wanted:
            continue
        whole, at, count = b"".join(parts), 0, 0
        while (wanted := _end_of_frame(whole, at, doing)) <= len(whole):
            yield whole[at + _LENGTH_BYTES : wanted]
            at, count = wanted, count + 1
            if count % _PER_TURN == 0:
                await asyncio.sleep(0)
        parts = [whole[at:]]
        size, wanted = size - at, wanted - at


def _end_of_frame(whole: bytes, at: int, doing: str) -> int:
    """Return where the frame ends that begins at a place, or where its length does as long as that is not there."""
    start = at + _LENGTH_BYTES
    length = int.from_bytes(whole[at:start], "big") if start <= len(whole) else 0
    if length > EVENT_MAX:
        raise error_of(doing, 500, f"an event is larger than {EVENT_MAX} bytes".encode())
    return start + length


def _event(kind: Kind[T], content: bytes, doing: str, read: Callable[[bytes], T] | None = None) -> WatchEvent[T]:
    return _event_of_line(kind, content, doing) if read is None else _framed_event(content, doing, read)


def _framed_event(frame: bytes, doing: str, read: Callable[[bytes], T]) -> WatchEvent[T]:
    try:
        event = protobuf.event_of(frame)
        if event.type == "ERROR":
            status = protobuf.status_of(event.object)
            raise _failure(doing, msgspec.json.encode(status))
        if event.type == "BOOKMARK":
            return WatchEvent(event.type, protobuf.metadata_of(event.object), None)
        found = read(event.object)
    except protobuf.UNREADABLE as error:
        raise error_of(doing, 500, f"an event cannot be read: {error}".encode()) from error
    return WatchEvent(event.type, found.metadata, found)


def _event_of_line(kind: Kind[T], line: bytes, doing: str) -> WatchEvent[T]:
    try:
        # In one pass, as nearly all are: of the rest, an error or an object that does not fit, a second one says more.
        found = kind.event_decoder.decode(line)
    except msgspec.DecodeError:
        return _read_apart(kind, line, doing)
    if found.type in _CHANGES:
        return WatchEvent(found.type, found.object.metadata, found.object)
    return _read_apart(kind, line, doing)


def _read_apart(kind: Kind[T], line: bytes, doing: str) -> WatchEvent[T]:
    """Read an event, and what it is about by itself."""
    try:
        envelope = msgspec.json.decode(line, type=_Envelope)
        if envelope.type == "ERROR":
            raise _failure(doing, bytes(envelope.object))
        if envelope.type == "BOOKMARK":
            return WatchEvent(envelope.type, metadata_of(envelope.object), None)
        try:
            found = kind.decoder.decode(envelope.object)
        except msgspec.ValidationError as error:
            part = salvage(kind.type, envelope.object)
            return WatchEvent(envelope.type, part.metadata, part, str(error))
    except msgspec.DecodeError as error:
        raise error_of(doing, 500, f"an event cannot be read: {error}".encode()) from error
    return WatchEvent(envelope.type, found.metadata, found)


def _failure(doing: str, status: bytes) -> KubeError:
    return error_of(doing, msgspec.json.decode(status, type=Status).code or 500, status)
