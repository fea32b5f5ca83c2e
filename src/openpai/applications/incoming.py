"""A request of a browser for an application: what asks, where it goes, and for how long it may go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from openpai.applications import headers as passing
from openpai.applications.cookies import Cookies
from openpai.ports.applications import PlacedApplication


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request or WebSocket that is passed on."""

    scope: Scope
    receive: Receive
    send: Send
    place: PlacedApplication
    cookies: Cookies
    scheme: str
    touch: Callable[[], None]
    """Says that the application is used."""
    may_go_on: Callable[[], Awaitable[bool]]
    look_every_s: float

    def headers(self) -> passing.Headers:
        """Return the headers that the application gets."""
        client = self.scope.get("client")
        return passing.inwards(
            self.scope["headers"],
            self.cookies,
            token=self.place.token,
            scheme=self.scheme,
            client=client[0] if client else "",
        )

    def target(self) -> bytes:
        """Return the path and query as the browser sent them."""
        path: bytes = self.scope.get("raw_path") or self.scope["path"].encode()
        query: bytes = self.scope["query_string"]
        return path.partition(b"?")[0] + (b"?" + query if query else b"")

    async def until_forbidden(self) -> None:
        """Return when the user may not use the application any more."""
        while True:
            await asyncio.sleep(self.look_every_s)
            if not await self.may_go_on():
                return
