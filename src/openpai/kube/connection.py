"""Connections to one API server: kept alive and shared, with credentials and deadlines, and safe retries.

A request that was refused unread (429, or no connection) is sent once more whatever it is. After a lost answer only a
read is repeated: a write may have been carried out, and its caller must look.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import lru_cache
from typing import Any, Final, Literal

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from openpai.kube.config import ClusterAccess, load_certificate
from openpai.kube.connection_pool import (
    CONNECT_PATIENCE_S,
    IDLE_S,
    OPENED_AT_ONCE,
    Answer,
    ConnectionPool,
    Headers,
    NoAnswerError,
    alive,
)
from openpai.kube.credentials import ClientCertificate
from openpai.kube.errors import KubeError, error_of, silent

CONNECTIONS: Final = 48
TRIES: Final = 5
CALL_PATIENCE_S: Final = 30.0
PAUSE_S: Final = 0.2
PAUSE_MAX_S: Final = 10.0
RETRY_AFTER_MAX_S: Final = 30.0
JSON: Final = "application/json"
METADATA: Final = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""Asks for only the metadata of an object, which costs the API server and its client less."""
METADATA_LIST: Final = METADATA.replace("PartialObjectMetadata", "PartialObjectMetadataList")
Params = Mapping[str, str] | list[tuple[str, str]] | None
_NOW_BUSY: Final = frozenset({500, 502, 503, 504})
_POOLED: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_PREPARED_MAX: Final = 64


class Connection:
    """What a client sends its requests through. Opened at the first request; to be closed."""

    def __init__(self, access: ClusterAccess, *, connections: int = CONNECTIONS, user_agent: str = "openpai") -> None:
        self.access = access
        self._connections = connections
        self._free = asyncio.Semaphore(connections)
        self._agent = user_agent
        self._tls: ssl.SSLContext | None = None
        self._loaded: ClientCertificate | None = None
        self._calls: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        self._pool: ConnectionPool | Literal[False] | None = None
        self._prepared: dict[tuple[str, str, Headers], Headers] = {}

    async def close(self) -> None:
        """Close every connection."""
        for session in (self._calls, self._streams):
            if session is not None:
                await session.close()
        self._calls = self._streams = None
        if self._pool:
            self._pool.close()
        self._pool = None

    async def call(
        self,
        method: str,
        path: str,
        *,
        doing: str,
        params: Params = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = JSON,
        patience_s: float = CALL_PATIENCE_S,
    ) -> bytes:
        """Return the answer to a request; raise KubeError if it was not carried out, or may not have been."""
        tries, refreshed = 0, False
        while True:
            tries += 1
            try:
                # The time of a request begins when it is sent: thousands may wait for a connection.
                async with self._free:
                    return await self._once(method, path, doing, params, body, content_type, accept, patience_s)
            except KubeError as error:
                if error.http == 401 and not refreshed and await self.access.credentials.refresh():
                    refreshed = True
                    continue
                pause_s = pause_before_retry(error, tries, is_read=method == "GET")
                if pause_s is None:
                    raise
            await asyncio.sleep(pause_s)

    async def _once(
        self,
        method: str,
        path: str,
        doing: str,
        params: Params,
        body: bytes | None,
        content_type: str,
        accept: str,
        patience_s: float,
    ) -> bytes:
        headers = await self._headers(accept, content_type if body is not None else "")
        try:
            url = _url(self.url(path), tuple(params.items() if isinstance(params, Mapping) else params or ()))
            if self._pool is None:
                self._pool = self._opened_pool()
            if self._pool and method in _POOLED:
                answer = await self._pool.ask(method, url.raw_path_qs, headers, body, patience_s)
            else:
                answer = await self._asked(method, url, headers, body, patience_s)
        except NoAnswerError as error:
            raise silent(doing, error, was_sent=error.was_sent) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise unanswered(doing, error) from error
        if answer.status < 300:
            return answer.content
        raise error_of(doing, answer.status, answer.content, answer.retry_after)

    async def _asked(self, method: str, url: URL, headers: Headers, body: bytes | None, patience_s: float) -> Answer:
        async with self._session().request(
            method, url, data=body, headers=headers, timeout=_timeout(patience_s), **self._options()
        ) as answer:
            return Answer(answer.status, answer.headers.get("Retry-After"), await answer.read())

    async def read(self, path: str, *, doing: str, params: Params = None, patience_s: float = CALL_PATIENCE_S) -> bytes:
        """Return the answer to a GET that is sent once: its caller knows when to ask again, and asks little at a time.

        It waits for no connection of calls, and takes none from them: what answers slowly would keep it for long.
        """
        try:
            return await self._once("GET", path, doing, params, None, "", JSON, patience_s)
        except KubeError as error:
            if error.http != 401 or not await self.access.credentials.refresh():
                raise
        return await self._once("GET", path, doing, params, None, "", JSON, patience_s)

    async def stream(
        self, path: str, *, doing: str, params: Params = None, quiet_s: float | None = None, accept: str = JSON
    ) -> aiohttp.ClientResponse:
        """Return an answer that goes on, to be closed; its bytes may pause for `quiet_s`."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_PATIENCE_S, sock_read=quiet_s)
        for refreshed in (False, True):
            headers = await self._headers(accept)
            try:
                answer = await self._session(of_streams=True).get(
                    self.url(path), params=params, headers=headers, timeout=timeout, **self._options()
                )
                if answer.status < 300:
                    return answer
                async with answer:
                    content = await answer.read()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise unanswered(doing, error) from error
            if answer.status != 401 or refreshed or not await self.access.credentials.refresh():
                break
        raise error_of(doing, answer.status, content, answer.headers.get("Retry-After"))

    async def chunks(
        self, path: str, *, doing: str, params: Params = None, quiet_s: float | None = None
    ) -> AsyncGenerator[bytes]:
        """Yield an answer in pieces of any size as they come."""
        answer = await self.stream(path, doing=doing, params=params, quiet_s=quiet_s)
        async with answer, aclosing(pieces(answer, doing)) as found:
            async for piece in found:
                yield piece

    async def socket(
        self, path: str, *, doing: str, params: list[tuple[str, str]], protocols: tuple[str, ...]
    ) -> aiohttp.ClientWebSocketResponse:
        """Return an open WebSocket, to be closed."""
        headers = await self._headers("*/*")
        try:
            opened: aiohttp.ClientWebSocketResponse = await self._session(of_streams=True).ws_connect(
                self.url(path),
                params=params,
                headers=headers,
                protocols=protocols,
                max_msg_size=0,
                heartbeat=30.0,
                timeout=aiohttp.ClientWSTimeout(ws_close=10.0),
                **self._place(),
            )
            return opened
        except aiohttp.WSServerHandshakeError as error:
            raise await self._why_no_socket(path, doing, params, error.status) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise unanswered(doing, error) from error

    async def _why_no_socket(self, path: str, doing: str, params: list[tuple[str, str]], status: int) -> KubeError:
        """Return the error for a refused WebSocket; its reason comes with the answer to a plain request only."""
        try:
            (await self.stream(path, doing=doing, params=params)).close()
        except KubeError as error:
            if error.http == status:
                return error
        return error_of(doing, status, b"the API server opens no WebSocket")

    def url(self, path: str) -> str:
        """Return the address of a path of the API."""
        return self.access.server + path

    def _session(self, *, of_streams: bool = False) -> aiohttp.ClientSession:
        if self._calls is None or self._streams is None:
            # Streams are as many as there are kinds watched and logs followed, and never wait for a call's connection.
            self._calls = self._opened(self._connections)
            self._streams = self._opened(0)
        return self._streams if of_streams else self._calls

    def _encryption(self) -> ssl.SSLContext | None:
        if self.access.server.startswith("https"):
            self._tls = self._tls or self.access.tls()
        return self._tls

    def _opened_pool(self) -> ConnectionPool | Literal[False]:
        """Return connections for calls; False if the way to the server takes a general client."""
        server = URL(self.access.server)
        if self.access.proxy or server.user or not server.raw_host or server.port is None:
            return False
        tls, name = self._encryption(), self.access.server_name
        return ConnectionPool(server.raw_host, server.port, server.host_port_subcomponent or "", tls, name)

    def _opened(self, limit: int) -> aiohttp.ClientSession:
        tls = self._encryption()
        connector = _Connector(limit=limit, ssl=tls or False, keepalive_timeout=IDLE_S, socket_factory=alive)
        # An environment variable may not send our credentials through a proxy of others: the kubeconfig names one.
        session = aiohttp.ClientSession(connector=connector, trust_env=False)
        # aiohttp would send a PUT or DELETE again that got no answer, and hide that it may have happened twice.
        session._retry_connection = False  # noqa: SLF001
        return session

    async def _headers(self, accept: str = JSON, content_type: str = "") -> Headers:
        found = await self.access.credentials.headers()
        issued = self.access.credentials.certificate
        if issued is not None and issued is not self._loaded:
            if (tls := self._encryption()) is not None:
                load_certificate(tls, issued)
            self._loaded = issued
        key = accept, content_type, tuple(found.items())
        if (headers := self._prepared.get(key)) is None:
            if len(self._prepared) >= _PREPARED_MAX:
                self._prepared.clear()
            made = CIMultiDict(self.access.headers)
            made.update(found)
            made.update({"Accept": accept, "Accept-Encoding": "identity", "User-Agent": self._agent})
            if content_type:
                made["Content-Type"] = content_type
            headers = self._prepared[key] = tuple(made.items())
        return headers

    def _options(self) -> dict[str, Any]:
        # Credentials are for this server only, and a change must not be made elsewhere.
        return {"allow_redirects": False, **self._place()}

    def _place(self) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if self.access.server_name:
            options["server_hostname"] = self.access.server_name
        if self.access.proxy:
            options["proxy"] = self.access.proxy
        return options


class _Connector(aiohttp.TCPConnector):
    """Opens a few connections at a time."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._opening = asyncio.Semaphore(OPENED_AT_ONCE)

    async def _create_connection(self, *given: Any, **named: Any) -> Any:
        async with self._opening:
            return await super()._create_connection(*given, **named)


async def pieces(answer: aiohttp.ClientResponse, doing: str) -> AsyncGenerator[bytes]:
    """Yield an answer in pieces of any size as they come."""
    try:
        async for piece in answer.content.iter_any():
            yield piece
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise unanswered(doing, error) from error


def pause_before_retry(error: KubeError, tries: int, *, is_read: bool) -> float | None:
    """Return how long to wait before the request is sent again, or None if it must not be or was sent often enough."""
    if tries >= TRIES:
        return None
    if error.http == 429:
        # A pod that a disruption budget protects is refused with 429 too, for longer than a request waits.
        if error.retry_after_s is None or error.causes:
            return None
        return min(error.retry_after_s, RETRY_AFTER_MAX_S) * random.uniform(1.0, 1.25)  # noqa: S311
    was_unread = error.http == 0 and not error.may_have_happened
    if was_unread or (is_read and (error.http == 0 or error.http in _NOW_BUSY)):
        return backoff_s(tries)
    return None


def backoff_s(tries: int, most_s: float = PAUSE_MAX_S) -> float:
    """Return a pause that doubles with each try, up to a limit, and differs between clients."""
    return min(most_s, PAUSE_S * 2.0 ** min(tries, 30)) * random.uniform(0.5, 1.0)  # noqa: S311


# Thousands of requests differ in their body only, and reading an address takes as long as sending one.
@lru_cache(maxsize=64)
def _url(address: str, params: tuple[tuple[str, str], ...]) -> URL:
    try:
        return URL(address).extend_query(params)
    except ValueError as error:
        raise aiohttp.InvalidURL(address) from error


@lru_cache(maxsize=16)
def _timeout(patience_s: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=patience_s, sock_connect=CONNECT_PATIENCE_S)


def unanswered(doing: str, error: BaseException) -> KubeError:
    """Return our error for one of the connection."""
    was_never_sent = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    return silent(doing, error, was_sent=not was_never_sent)
