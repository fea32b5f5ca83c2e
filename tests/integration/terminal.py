"""People at terminals in front of the real API, all in this process: `pai` as it is, without a server to start.

The platform of `api_world` runs on an event loop in a thread of its own; what a command sends goes to it through a
transport that hands requests over. Answers that are lost on the way are lost here on purpose.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from openpai.cli import session
from openpai.client import Client
from tests.integration.api_world import PASSWORD, World, open_world
from tests.outcome import Outcome, run_pai

T = TypeVar("T")


class Bridge(httpx.BaseTransport):
    """Hands requests over to an application on another thread's event loop."""

    def __init__(self, api: Any, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._inner = httpx.ASGITransport(api, client=("192.0.2.7", 4711))
        self._run = run
        self.answers_to_lose = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the application's answer, or lose it when it is there."""
        request.read()

        async def answer() -> httpx.Response:
            sent = httpx.Request(request.method, request.url, headers=request.headers, content=request.content)
            response = await self._inner.handle_async_request(sent)
            content = await response.aread()
            return httpx.Response(response.status_code, headers=response.headers, content=content)

        response: httpx.Response = self._run(answer())
        if self.answers_to_lose:
            self.answers_to_lose -= 1
            raise httpx.ReadError("the connection broke")
        return response


@dataclass
class Terminal:
    """A platform, and what people type."""

    world: World
    loop: asyncio.AbstractEventLoop
    bridge: Bridge
    monkeypatch: pytest.MonkeyPatch
    tokens: dict[str, str] = field(default_factory=dict)

    def run(self, promise: Coroutine[Any, Any, T]) -> T:
        """Do something on the platform's own event loop."""
        return asyncio.run_coroutine_threadsafe(promise, self.loop).result(60)

    def client(self, user: str = "root", token: str | None = None) -> Client:
        """Return a client of a user who is logged in."""
        if token is None and user not in self.tokens:
            with Client("http://pai", transport=self.bridge) as pai:
                self.tokens[user] = pai.login(user, PASSWORD).token
        known = token or self.tokens[user]
        return Client("http://pai", known, user=user, transport=self.bridge, sleep=lambda _: None)

    def __call__(self, *arguments: str, user: str = "root", stdin: str | None = None) -> Outcome:
        """Run `pai` to its end, as a user who is logged in."""
        with self.monkeypatch.context() as patch:
            patch.setattr(session, "connect", lambda: self.client(user))
            patch.setenv("COLUMNS", "80")
            return run_pai(*arguments, stdin=stdin or "")

    def ok(self, *arguments: str, user: str = "root", stdin: str | None = None) -> Outcome:
        """Run `pai`; it must succeed, and fit a terminal of 80 columns."""
        message = self(*arguments, user=user, stdin=stdin)
        assert message.code == 0, message.err
        if "--json" not in arguments:
            # What is one word, such as a token, cannot be broken.
            lines = (line for line in message.out.splitlines() if len(line) > 80 and " " in line.strip())
            assert [line for line in lines if not line.startswith(("next:", "     "))] == []
        return message

    def json(self, *arguments: str, user: str = "root", stdin: str | None = None) -> Any:
        """Run `pai --json`; it must succeed."""
        return self.ok(*arguments, "--json", user=user, stdin=stdin).json()


@contextmanager
def on_a_loop() -> Iterator[tuple[asyncio.AbstractEventLoop, Callable[[Coroutine[Any, Any, Any]], Any]]]:
    """Run an event loop in a thread; yield it, and what runs something on it to its end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(promise: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(promise, loop).result(60)

    try:
        yield loop, run
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


@contextmanager
def open_terminal(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Open a platform of `api_world` and terminals in front of it."""
    with on_a_loop() as (loop, run):
        opened = open_world(root)
        world = run(opened.__aenter__())
        try:
            yield Terminal(world, loop, Bridge(world.api, run), monkeypatch)
        finally:
            run(opened.__aexit__(None, None, None))
