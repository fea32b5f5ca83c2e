"""Listens for SSH clients, and stops."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import asyncssh

from openpai.ssh.connections import TaskConnection
from openpai.ssh.model import Services

WINDOW: Final = 1 << 20
"""How many bytes of a channel may be on their way: what an unread one costs in memory."""
GREETING: Final = "OpenPAI"
BACKLOG: Final = 256


@asynccontextmanager
async def serve_ssh(listener: socket.socket, host_key: bytes, services: Services) -> AsyncIterator[None]:
    """Answer SSH clients of a bound socket until the end of the context, which ends all their sessions."""
    limits = services.limits
    open_connections: set[asyncssh.SSHServerConnection] = set()

    class Kept(TaskConnection):
        """A connection that is ended with the server."""

        def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
            open_connections.add(conn)
            super().connection_made(conn)

        def connection_lost(self, exc: Exception | None) -> None:
            if self._connection is not None:
                open_connections.discard(self._connection)
            super().connection_lost(exc)

    acceptor = await asyncssh.listen(
        sock=listener,
        backlog=BACKLOG,
        server_factory=partial(Kept, services),
        server_host_keys=[asyncssh.import_private_key(host_key)],
        server_version=GREETING,
        encoding=None,
        line_editor=False,
        public_key_auth=True,
        password_auth=False,
        kbdint_auth=False,
        host_based_auth=False,
        gss_host=None,
        agent_forwarding=False,
        x11_forwarding=False,
        # A small packet that becomes a large one would cost the server, and not the client.
        compression_algs=None,
        login_timeout=limits.login_s,
        keepalive_interval=limits.keepalive_s,
        window=WINDOW,
        config=None,
    )
    try:
        yield
    finally:
        acceptor.close()
        for connection in tuple(open_connections):
            connection.disconnect(asyncssh.DISC_BY_APPLICATION, "the server stops")
        await acceptor.wait_closed()
