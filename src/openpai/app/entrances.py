"""What lets requests into a server: the HTTP server of the API, SSH, and the ports of applications.

All that only requests need is imported with this module, which a starting server reads after its first decision.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Final

import uvicorn

import openpai.protocol.reading  # noqa: F401  # or the first job file would wait for it
from openpai.api.shell_frames import MESSAGE_MAX
from openpai.app.application_ports import application_entrance
from openpai.app.assembly import Server
from openpai.app.http_guard import BoundedSocket, bounded_heads
from openpai.app.settings import Settings
from openpai.app.ssh_gateway import described, read_host_key, ssh_gateway

GOODBYE_S: Final = 3
DATE_EVERY_S: Final = 1.0


def api_server(settings: Settings, built: Server) -> _Server:
    """Return the HTTP server of the API."""
    heads = bounded_heads(settings.connections_per_address, settings.proxies)
    config = uvicorn.Config(
        built.api,
        http=heads,
        forwarded_allow_ips=None if settings.trusted_proxies is None else list(settings.proxies),
        ws=BoundedSocket,
        ws_max_size=MESSAGE_MAX,
        ws_per_message_deflate=False,
        ws_ping_interval=None,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=GOODBYE_S,
        server_header=False,
    )
    return _Server(config)


@contextlib.asynccontextmanager
async def opened(settings: Settings, built: Server, ssh: socket.socket | None) -> AsyncIterator[None]:
    """Let SSH clients in, and browsers into applications, as far as the settings say so."""
    async with (
        _ssh(settings, built, ssh),
        application_entrance(settings, built.api.state.context, built.root) as built.applications,
    ):
        yield


@contextlib.asynccontextmanager
async def _ssh(settings: Settings, built: Server, listener: socket.socket | None) -> AsyncIterator[None]:
    """Answer SSH clients, if the settings say so."""
    if listener is None:
        yield
        return
    host_key = await asyncio.to_thread(read_host_key, settings, built.ssh_host_key)
    built.ssh = described(listener, host_key)
    async with ssh_gateway(listener, host_key, built.api.state.context):
        yield


class _Server(uvicorn.Server):
    """Uvicorn without its signal handlers, which would repeat the signal after a clean stop.

    Nor does it check ten times a second whether it must stop: it waits for that.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._leaving = asyncio.Event()

    async def main_loop(self) -> None:
        """Renew the date in the headers of answers every second, until `leave` is called."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                # Not `wait_for`: before Python 3.12 it forgets a cancellation that comes together with the event.
                async with asyncio.timeout(DATE_EVERY_S):
                    await self._leaving.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def leave(self) -> None:
        """Start to stop; on a second call, do not wait for open requests."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._leaving.set()
