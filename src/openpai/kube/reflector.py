"""A cache of one kind of objects that follows the API server: list, watch, and begin once more when that is needed.

It survives whatever happens to the connection: streams that break, end or fall silent are opened again from the last
version; a version that the server no longer has (410, as a status or inside the stream) leads to a fresh list, and what
was deleted in the gap is found by comparing. It never gives up; `trouble` says what keeps it from being up to date.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Generic, NamedTuple, Self

import msgspec
import structlog

from openpai.kube.changes import Change, Changes
from openpai.kube.client import KubeClient
from openpai.kube.connection import backoff_s
from openpai.kube.errors import KubeError
from openpai.kube.objects.kinds import Kind, T
from openpai.kube.watch_stream import OPENED, WatchEvent, WatchScope, watch
from openpai.protocol.errors import PaiError
from openpai.system.supervision import supervise

QUIET_S: Final = 150.0
"""The API server sends a bookmark every minute; a stream without event and bookmark for longer has stalled."""
PAUSE_MAX_S: Final = 30.0
SAME_VERSION_TRIES: Final = 5
"""How often a watch may fail from one version before everything is listed once more."""
LIST_TRIES: Final = 3
"""How often it tries to list by a watch; the last try is a list in pages, which needs no bookmark."""

_log: Final = structlog.get_logger(__name__)


class Key(NamedTuple):
    """The name of an object."""

    namespace: str
    name: str


class Reflector(Generic[T]):
    """A cache of the objects of one kind that the selectors select. Use it as an asynchronous context, or run it."""

    def __init__(
        self,
        client: KubeClient,
        kind: Kind[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        quiet_s: float = QUIET_S,
        keep: Callable[[T], T] | None = None,
        read: Callable[[bytes], T] | None = None,
    ) -> None:
        """`keep` returns what is kept of an object, for a cache of many of which few fields are needed.

        A change of something that is not kept is no change. `read` reads an object in protobuf, and may leave out what
        is not kept.
        """
        self.kind = kind
        self.synced = asyncio.Event()
        """Set once everything was listed for the first time."""
        self.trouble: PaiError | None = None
        """What keeps the cache from being up to date; None while its stream is alive."""
        self.lists = 0
        """How often everything was listed."""
        self.unreadable: dict[Key, str] = {}
        """Objects that could not be read in full, with the reason; the cache has what can be read of them."""
        self._client = client
        self._scope = WatchScope(namespace, labels, fields)
        self._quiet_s = quiet_s
        self._keep = keep
        self._read = read
        self._objects: dict[Key, T] = {}
        self._subscribers: list[Changes[T]] = []
        self._version = ""
        self._may_stream_lists = True
        self._heard_at_s = float("-inf")
        self._failures = 0
        self._has_progress = False
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def objects(self) -> Mapping[Key, T]:
        """Return the objects by namespace and name, as far as they are known."""
        return MappingProxyType(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return an object by its name, or None."""
        return self._objects.get(Key(namespace, name))

    @property
    def age_s(self) -> float:
        """Return how long ago the server last sent anything: an upper bound on how old the cache is."""
        return asyncio.get_running_loop().time() - self._heard_at_s

    def subscribe(self, *, from_now: bool = False) -> Changes[T]:
        """Return what changes from now on, beginning with all objects there are, but for `from_now`."""
        changes: Changes[T] = Changes()
        for found in () if from_now else self._objects.values():
            changes.add(Change(None, found, found))
        self._subscribers.append(changes)
        return changes

    def unsubscribe(self, changes: Changes[T]) -> None:
        """Keep no more changes for a reader."""
        with contextlib.suppress(ValueError):
            self._subscribers.remove(changes)

    def start(self) -> None:
        """Begin to follow, as a task that is kept alive."""
        self._task = self._task or supervise(f"watch of {self.kind.plural}", self.run)

    async def close(self) -> None:
        """Stop to follow."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def run(self) -> None:
        """Follow the server until cancelled."""
        while True:
            self._has_progress = False
            pause_s = 0.0
            try:
                await self._follow()
            except PaiError as error:
                self._note(error)
                pause_s = getattr(error, "retry_after_s", None) or 0.0
            self._failures = 0 if self._has_progress else self._failures + 1
            await asyncio.sleep(max(backoff_s(self._failures, PAUSE_MAX_S), min(pause_s, PAUSE_MAX_S)))

    async def _follow(self) -> None:
        """Open one stream and follow it until it ends."""
        if self._version and (self._failures + 1) % SAME_VERSION_TRIES:
            await self._watch()
        elif self._may_stream_lists and self._failures % LIST_TRIES < LIST_TRIES - 1:
            await self._watch_from_beginning()
        else:
            await self._list()
            await self._watch()

    async def _watch(self) -> None:
        async with contextlib.aclosing(self._events(self._version)) as events:
            async for event in events:
                self._apply(event)

    async def _watch_from_beginning(self) -> None:
        """List by a watch, which costs server and client less memory than a list, and go on with the same stream."""
        fresh: dict[Key, T] | None = {}
        unreadable: dict[Key, str] = {}
        try:
            async with contextlib.aclosing(self._events("", from_beginning=True)) as events:
                async for event in events:
                    if fresh is None:
                        self._apply(event)
                    elif event.ends_the_beginning:
                        self._replace_all(fresh, unreadable, event.metadata.resource_version)
                        fresh = None
                    else:
                        _gather(event, fresh, unreadable)
        except KubeError as error:
            # The API server is older than Kubernetes 1.32, or has this switched off.
            if fresh is None or error.http not in (400, 422):
                raise
            self._may_stream_lists = False

    async def _list(self) -> None:
        scope = self._scope
        page = await self._client.list_page(self.kind, scope.namespace, labels=scope.labels, fields=scope.fields)
        unreadable = {Key(*key): fault for key, fault in page.unreadable.items()}
        kept = page.items if self._keep is None else map(self._keep, page.items)
        self._replace_all({_key(found): found for found in kept}, unreadable, page.resource_version)

    async def _events(self, version: str, *, from_beginning: bool = False) -> AsyncGenerator[WatchEvent[T]]:
        events = watch(
            self._client, self.kind, self._scope, version,
            quiet_s=self._quiet_s, from_beginning=from_beginning, read=self._read,
        )  # fmt: skip
        async with contextlib.aclosing(events):
            async for event in events:
                self._hear()
                if event.object is not None and self._keep is not None:
                    event = WatchEvent(event.type, event.metadata, self._keep(event.object))
                if event.type != OPENED:
                    yield event

    def _hear(self) -> None:
        self._heard_at_s = asyncio.get_running_loop().time()
        if self.trouble is not None:
            self.trouble = None
            _log.info("the watch goes on", kind=self.kind.plural)

    def _note(self, error: PaiError) -> None:
        """Keep what went wrong, and forget the version if the server no longer has it."""
        if isinstance(error, KubeError) and error.is_expired:
            self._version = ""
        before = self.trouble
        self.trouble = error
        if before is None or before.message != error.message:
            _log.warning("a watch was interrupted", kind=self.kind.plural, error=error.message)

    def _apply(self, event: WatchEvent[T]) -> None:
        self._has_progress = True
        if event.object is not None:
            key = Key(event.metadata.namespace, event.metadata.name)
            known = self.unreadable.pop(key, "")
            if event.type == "DELETED":
                self._remove(key, event.object)
            else:
                if event.fault:
                    self.unreadable[key] = event.fault
                    self._warn(key, event.fault, known)
                self._put(key, event.object)
        if event.metadata.resource_version:
            self._version = event.metadata.resource_version

    def _warn(self, key: Key, fault: str, known: str) -> None:
        """Log once that an object cannot be read in full: it counts by the rest of it."""
        if fault != known:
            _log.warning("a part of an object cannot be read", kind=self.kind.plural, name="/".join(key), part=fault)

    def _replace_all(self, fresh: Mapping[Key, T], unreadable: dict[Key, str], version: str) -> None:
        """Make the cache equal to a list, and report what differs as changes."""
        for key in self._objects.keys() - fresh.keys():
            self._remove(key, self._objects[key])
        for key, found in fresh.items():
            old = self._objects.get(key)
            if old is None or old.metadata.resource_version != found.metadata.resource_version or old.uid != found.uid:
                self._put(key, found)
        for key, fault in unreadable.items():
            self._warn(key, fault, self.unreadable.get(key, ""))
        self.unreadable = unreadable
        self._version = version
        self._has_progress = True
        self.lists += 1
        self.synced.set()

    def _put(self, key: Key, found: T) -> None:
        old = self._objects.get(key)
        if old is not None and old.uid != found.uid:
            # The deletion of the earlier one was in a gap.
            self._remove(key, old)
            old = None
        self._objects[key] = found
        if old is None or self._keep is None or not _differs_in_version_only(old, found):
            self._report(Change(old, found, found))

    def _remove(self, key: Key, last: T) -> None:
        old = self._objects.pop(key, None)
        if old is not None and old.uid != last.uid:
            self._report(Change(old, None, old))
            old = None
        self._report(Change(old, None, last))

    def _report(self, change: Change[T]) -> None:
        for subscriber in self._subscribers:
            subscriber.add(change)


def _key(found: T) -> Key:
    return Key(found.namespace, found.name)


def _differs_in_version_only(old: T, new: T) -> bool:
    """Return whether nothing that is kept of an object changed, as with most events of the pods of others."""
    metadata = msgspec.structs.replace(new.metadata, resource_version=old.metadata.resource_version)
    return msgspec.structs.replace(new, metadata=metadata) == old


def _gather(event: WatchEvent[T], fresh: dict[Key, T], unreadable: dict[Key, str]) -> None:
    """Add an object of the beginning of a stream to the list that grows."""
    key = Key(event.metadata.namespace, event.metadata.name)
    if event.type == "BOOKMARK":
        return
    fresh.pop(key, None)
    unreadable.pop(key, None)
    if event.type == "DELETED":
        return
    if event.object is not None:
        fresh[key] = event.object
    if event.fault:
        unreadable[key] = event.fault
