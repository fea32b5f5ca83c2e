"""A whole platform behind a real socket, for tests that throw whatever its description allows, and more, at it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from openpai.access.accounts import Token
from openpai.api.rate_limits import LoginLimiter
from openpai.api.sessions import digest_of
from openpai.app.assembly import Server
from openpai.protocol.errors import Refused

from .sharing_world import PASSWORD, Sharing, open_sharing

TOKENS: Final = {name: f"{name}-who-never-has-to-log-in-again-0123456789" for name in ("admin", "ann")}
_MANY: Final = 1_000_000


class Lasting:
    """ASGI middleware that lets some people stay logged in.

    What is thrown at a platform also logs out and revokes tokens, and what comes after that would find every door shut.
    """

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self._app = app
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, its token valid."""
        if scope["type"] == "http":
            sent = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
            for user, token in TOKENS.items():
                if sent == f"Bearer {token}":
                    await self._renew(user, token)
        await self._app(scope, receive, send)

    async def _renew(self, user: str, token: str) -> None:
        context = self._server.api.state.context
        try:
            await context.sessions.caller(f"Bearer {token}")
        except Refused:
            # No request can restore a revoked token; this is a token of the same letters.
            now_ms = context.services.clock.now_ms()
            await context.services.users.add_token(Token(digest_of(token), user, False, now_ms, now_ms + 86_400_000))


@asynccontextmanager
async def open_described(root: Path) -> AsyncIterator[tuple[Sharing, str]]:
    """Open a platform with an administrator, a user, and something of everything; yield it and its address."""
    async with open_sharing(root) as sharing:
        await _fill(sharing, root)
        # Without a form for the log, which would be that of the whole process from then on.
        config = uvicorn.Config(
            Lasting(sharing.server.api, sharing.server), port=0, lifespan="off", log_config=None, access_log=False
        )
        server = uvicorn.Server(config)
        # Signals are for the tests' own process.
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110 - no event says when it listens
            await asyncio.sleep(0.01)
        try:
            yield sharing, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        finally:
            server.should_exit = True
            with suppress(asyncio.CancelledError):
                await serving


async def _fill(sharing: Sharing, root: Path) -> None:
    context = sharing.server.api.state.context
    guesses = LoginLimiter(
        context.services.clock, per_min=_MANY, per_min_of_address=_MANY, per_min_of_user=_MANY
    )  # answers that ask to wait would hide everything else
    sharing.server.api.state.context = replace(context, logins=guesses)
    (root / "shared").mkdir(exist_ok=True)
    for method, path, body in (
        ("PUT", "/virtual-clusters/vision", {"promise": "1 nodes"}),
        ("POST", "/users", {"username": "ann", "password": PASSWORD, "virtualCluster": ["vision", "default"]}),
        ("POST", "/groups", {"groupname": "team-vision", "extension": {}}),
        ("POST", "/storages", {"name": "datasets", "type": "local", "data": {"path": str(root / "shared")}}),
        ("PUT", "/storages/datasets/groups/default", None),
        ("PUT", "/quotas", {"virtualCluster": "vision", "user": "ann", "gpusRunning": 8}),
        ("PUT", "/budgets", {"kind": "vc", "name": "vision", "gpuHours": 5000}),
    ):
        answer = await sharing.ask(method, path, json=body)
        assert answer.status_code < 300, answer.text
    for user in ("admin", "ann"):
        await sharing.submit("train", gpus=1, user=user)
        await sharing.submit("done", gpus=0, user=user, command="true")
        await sharing.until(f"{user}~done", "SUCCEEDED")
