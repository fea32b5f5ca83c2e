"""The ports of a server at which browsers reach applications: sockets and the HTTP server behind them.

They have the limits of the API's port, and nothing else in common with it: no request to one reaches the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any, Final

import uvicorn
from uvicorn.server import ServerState

from openpai.api.context import ApiContext
from openpai.api.job_access import check_job
from openpai.app.http_guard import BoundedHeads, BoundedSocket, bounded_heads
from openpai.app.setting_values import ports_in
from openpai.app.settings import Settings
from openpai.applications.entrance import Entrance
from openpai.applications.model import Limits, Services, Visitor
from openpai.applications.origins import DomainOrigins, PortOrigins
from openpai.applications.requests import ABORT
from openpai.applications.web_sockets import MESSAGE_MAX
from openpai.protocol.errors import BadConfiguration, Refused

ACTION: Final = "job.exec"
PORTS_FILE: Final = "application-ports.json"
_BACKLOG: Final = 128
_PING_S: Final = 30.0


class ApplicationServer:
    """Listens at ports for applications."""

    def __init__(self, settings: Settings) -> None:
        self._host = settings.host
        self._settings = settings
        self._state = ServerState()
        self._listeners: dict[int, socket.socket] = {}
        self._starting: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.AbstractServer] = []
        self._config: uvicorn.Config | None = None

    def serve(self, app: Any) -> None:
        """Set what answers the requests."""
        heads = bounded_heads(self._settings.connections_per_address, self._settings.proxies)
        self._config = uvicorn.Config(
            app,
            http=type("ApplicationHeads", (_Abortable, heads), {}),
            ws=BoundedSocket,
            forwarded_allow_ips=None if self._settings.trusted_proxies is None else list(self._settings.proxies),
            ws_max_size=MESSAGE_MAX,
            ws_per_message_deflate=False,
            ws_ping_interval=_PING_S,
            ws_ping_timeout=2 * _PING_S,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            date_header=False,
        )
        self._config.load()

    def listen(self, port: int) -> None:
        """Begin to answer requests at a port; raise OSError if another program has it. May be repeated."""
        if port in self._listeners:
            return
        listener = socket.socket(socket.AF_INET6 if ":" in self._host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._host, port))
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
        listener.setblocking(False)
        self._listeners[listener.getsockname()[1]] = listener
        task = asyncio.get_running_loop().create_task(self._start(listener))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _start(self, listener: socket.socket) -> None:
        config = self._config
        if config is None:
            raise RuntimeError("nothing answers yet")
        loop = asyncio.get_running_loop()
        protocol: Any = config.http_protocol_class
        self._servers.append(
            await loop.create_server(
                lambda: protocol(config=config, server_state=self._state, app_state={}), sock=listener, backlog=_BACKLOG
            )
        )

    async def close(self) -> None:
        """End all connections."""
        for task in tuple(self._starting):
            task.cancel()
        for server in self._servers:
            server.close()
        for connection in tuple(self._state.connections):
            connection.shutdown()
        for task in tuple(self._state.tasks):
            task.cancel()
        if self._state.tasks:
            await asyncio.wait(tuple(self._state.tasks), timeout=2)
        for listener in self._listeners.values():
            listener.close()


class _Abortable(BoundedHeads):
    """Lets an answer that is incomplete end its connection, which shows that it is."""

    def on_message_begin(self) -> None:
        """Offer the end of the connection to what answers the request."""
        super().on_message_begin()
        self.scope["state"][ABORT] = self.transport.close


@contextlib.asynccontextmanager
async def application_entrance(settings: Settings, context: ApiContext, root: Any) -> AsyncIterator[Entrance | None]:
    """Let browsers into applications until the end of the context; yield None if the settings switch that off."""
    ports = ports_in(settings.app_ports)
    if not ports or settings.api_only:
        yield None
        return
    api = context.services
    server = ApplicationServer(settings)
    if settings.app_url is not None:
        origins: DomainOrigins | PortOrigins = DomainOrigins(settings.app_url)
    else:
        origins = PortOrigins(
            ports, root / PORTS_FILE, api.clock, listen=server.listen, is_on_ipv6=":" in settings.host
        )
    limits = Limits(idle_s=settings.app_idle_hours * 3600)
    services = Services(
        api.platform, api.jobs, api.usage, api.clock, api.sealer, origins, _visitors(context), limits
    )  # fmt: skip
    entrance = Entrance(services)
    server.serve(entrance.proxy)
    try:
        if isinstance(origins, PortOrigins):
            origins.is_active = entrance.watch.is_active
            origins.open()
        else:
            _listen_once(server, settings, ports[0])
        async with entrance.running():
            yield entrance
    finally:
        await server.close()


def _listen_once(server: ApplicationServer, settings: Settings, port: int) -> None:
    try:
        server.listen(port)
    except OSError as error:
        message = f"cannot listen on {settings.host} port {port} for applications: {error.strerror}"
        raise BadConfiguration(message, "choose another port with --app-ports") from error


def _visitors(context: ApiContext) -> Any:
    async def visitor(login: str, job: str) -> Visitor:
        caller = await context.sessions.holder(login)
        row = await context.services.jobs.job_of_id(job)
        if row is None:
            raise Refused("NoJobError", "the job of this application was deleted")
        check_job(caller, row, ACTION)
        token = caller.token
        return Visitor(caller.user, (token.name or "application token") if token.is_application else "login")

    return visitor
