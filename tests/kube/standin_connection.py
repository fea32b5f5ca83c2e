"""Connects the platform's own client with a stand-in API server of the same process, through a bad network if asked.

Everything above a single request is the product's code: retries, streams, decoding. A request takes effect at its own
time, also when its client has died meanwhile, and its answer may be lost.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, Self

import aiohttp

from openpai.kube.config import ClusterAccess
from openpai.kube.connection import JSON, METADATA, Connection
from openpai.kube.errors import error_of, silent
from tests.kube.standin import Event, Object, Refusal, StandInApi

BOOKMARK_EVERY_S: Final = 60.0


class Network:
    """A network without faults. Derive from it to add some."""

    def is_up(self) -> bool:
        """Return whether the API server can be reached now."""
        return True

    def delay_s(self, method: str) -> float:
        """Return after how long a request arrives."""
        return 0.0

    def refusal(self, method: str) -> tuple[int, str] | None:
        """Return a status and a reason with which a busy server refuses a request."""
        return None

    def loses_answer(self, method: str) -> bool:
        """Return whether the answer to a request is lost."""
        return False

    async def passes(self) -> None:
        """Return once the client may hear of anything: at once, unless its process is paused."""

    @property
    def is_dead(self) -> bool:
        """Return whether the client's process was killed."""
        return False


@dataclass(frozen=True, eq=False)
class StandInAccess(ClusterAccess):
    """The way to a stand-in."""

    server: str = "standin://"
    api: StandInApi = field(default_factory=StandInApi)
    network: Network = field(default_factory=Network)
    streams: dict[_Stream, None] = field(default_factory=dict)
    """The watches that are open, for a test that breaks them."""


def connection_of(access: ClusterAccess, **options: Any) -> Connection:
    """Return the connection to a stand-in, or a real one: replaces `openpai.kube.client.Connection` in tests."""
    return StandInConnection(access, **options) if isinstance(access, StandInAccess) else Connection(access, **options)


class StandInConnection(Connection):
    """Requests to a stand-in."""

    def __init__(self, access: StandInAccess, **options: Any) -> None:
        super().__init__(access, **options)
        self._api = access.api
        self._network = access.network
        self._open = access.streams

    async def _once(
        self,
        method: str,
        path: str,
        doing: str,
        params: Any,
        body: bytes | None,
        content_type: str,
        accept: str,
        patience_s: float,
    ) -> bytes:
        await self._reach(doing)
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[tuple[int, bytes] | None] = loop.create_future()

        def arrive() -> None:
            answer = self._arrive(method, path, dict(params or {}), body, content_type)
            if not answered.done():
                answered.set_result(answer)

        if delay_s := self._network.delay_s(method):
            loop.call_later(delay_s, arrive)
        else:
            arrive()
        try:
            async with asyncio.timeout(patience_s):
                answer = await answered
        except TimeoutError as error:
            raise silent(doing, error, was_sent=True) from error
        await self._network.passes()
        if self._network.is_dead:
            raise asyncio.CancelledError
        if answer is None:
            raise silent(doing, "the connection broke", was_sent=True)
        status, content = answer
        if status < 300:
            return (
                content
                if METADATA not in accept
                else json.dumps({"metadata": json.loads(content)["metadata"]}).encode()
            )
        raise error_of(doing, status, content)

    def _arrive(
        self, method: str, path: str, params: Mapping[str, str], body: bytes | None, content_type: str
    ) -> tuple[int, bytes] | None:
        if not self._network.is_up():
            return None
        if refused := self._network.refusal(method):
            return refused[0], json.dumps({"code": refused[0], "reason": refused[1], "message": "busy"}).encode()
        answer = self._api.handle(method, path, params, body, content_type)
        return None if self._network.loses_answer(method) else answer

    async def stream(
        self, path: str, *, doing: str, params: Any = None, quiet_s: float | None = None, accept: str = JSON
    ) -> aiohttp.ClientResponse:
        await self._reach(doing)
        if refused := self._network.refusal("GET"):
            raise error_of(doing, refused[0], b"")
        try:
            found: Any = _Stream(self._api, path, dict(params or {}), self._network, self._open, quiet_s)
        except Refusal as refusal:
            raise error_of(doing, refusal.code, json.dumps(refusal.body).encode()) from refusal
        return found  # type: ignore[no-any-return]

    async def socket(self, path: str, *, doing: str, **_: Any) -> NoReturn:
        """Refuse: nothing runs here."""
        await self._reach(doing)
        raise error_of(doing, 404, b"there is no container")

    async def _reach(self, doing: str) -> None:
        await self._network.passes()
        if self._network.is_dead:
            raise asyncio.CancelledError
        if not self._network.is_up():
            await asyncio.sleep(0.01)
            raise silent(doing, "connection refused", was_sent=False)


class _Stream:
    """The answer to a watch."""

    def __init__(
        self,
        api: StandInApi,
        path: str,
        params: Mapping[str, str],
        network: Network,
        others: dict[_Stream, None],
        quiet_s: float | None,
    ) -> None:
        self._api = api
        self._network = network
        self._others = others
        self._quiet_s = quiet_s
        self._events: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self._selected, first = api.watch(path, params)
        self.content = self
        self.headers = {"Content-Type": JSON}
        for event in first:
            self._put(*event)
        api.listeners.append(self._heard)
        others[self] = None
        loop = asyncio.get_running_loop()
        self._end = loop.call_later(float(params.get("timeoutSeconds", "300")), self._events.put_nowait, None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hear nothing more."""
        self._others.pop(self, None)
        self._end.cancel()
        if self._heard in self._api.listeners:
            self._api.listeners.remove(self._heard)

    def reset(self) -> None:
        """Break the connection in the middle of an event."""
        self._events.put_nowait(b'{"type":"MODI')
        self._events.put_nowait(aiohttp.ClientPayloadError("the connection was reset"))
        self.close()

    def expire(self) -> None:
        """End as the server does that has lost the version."""
        gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
        self._put("ERROR", gone)
        self._events.put_nowait(None)
        self.close()

    async def iter_any(self) -> AsyncGenerator[bytes]:
        """Yield what comes, with a bookmark every minute."""
        silent_s = 0.0
        while True:
            try:
                async with asyncio.timeout(BOOKMARK_EVERY_S):
                    event = await self._events.get()
            except TimeoutError:
                silent_s += BOOKMARK_EVERY_S
                if not self._network.is_up() or self not in self._others:
                    if self._quiet_s is not None and silent_s > self._quiet_s:
                        raise
                    continue
                self._put("BOOKMARK", self._api.bookmark(self._selected))
                continue
            silent_s = 0.0
            await self._network.passes()
            if self._network.is_dead:
                raise asyncio.CancelledError
            if event is None:
                return
            if isinstance(event, Exception):
                raise event
            yield event

    def _heard(self, event: Event) -> None:
        if seen := self._api.seen(self._selected, event):
            self._put(*seen)

    def _put(self, kind: str, found: Object) -> None:
        self._events.put_nowait(json.dumps({"type": kind, "object": found}).encode() + b"\n")
