"""Runs a whole server in one process: API, passes, store and a backend, from start to clean end.

Faults of settings, directories, ports or databases are found before anything is served. On SIGTERM or Ctrl-C the
server stops answering, closes the store and the backend, and leaves tasks running.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from importlib.metadata import version
from typing import Final

import uvicorn

from openpai.api.services import ServerSetting
from openpai.api.shell_frames import MESSAGE_MAX
from openpai.app.application_ports import application_entrance
from openpai.app.assembly import Server, build
from openpai.app.console import Console
from openpai.app.datadir import note_address
from openpai.app.http_guard import BoundedSocket, bounded_heads
from openpai.app.settings import Settings
from openpai.app.settings_check import check, is_loopback
from openpai.app.ssh_gateway import described, read_host_key, ssh_gateway
from openpai.app.startup import ADMIN, ensure_admin, ensure_groups
from openpai.app.tracing import traces
from openpai.protocol.errors import BadConfiguration
from openpai.system.allocator import give_memory_back
from openpai.system.garbage import collect_forever
from openpai.system.supervision import count_what_nobody_catches, supervise

BACKLOG: Final = 2048
GOODBYE_S: Final = 3
DATE_EVERY_S: Final = 1.0


def serve(settings: Settings, admin_password: str | None, shown: tuple[ServerSetting, ...] = ()) -> None:
    """Run a server until SIGTERM or Ctrl-C. Raises Refused, before serving, for anything that cannot work."""
    check(settings)
    give_memory_back()
    with contextlib.ExitStack() as stack:
        stack.enter_context(traces(settings))
        listener = stack.enter_context(_listen(settings.host, settings.port, "--port"))
        ssh = None
        if settings.ssh_port is not None:
            ssh = stack.enter_context(_listen(settings.host, settings.ssh_port, "--ssh-port"))
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, shown, listener, ssh, admin_password))


async def _serve(
    settings: Settings,
    shown: tuple[ServerSetting, ...],
    listener: socket.socket,
    ssh: socket.socket | None,
    admin_password: str | None,
) -> None:
    console = Console(settings)
    async with build(settings, shown) as built:
        # Raise the limit only now: tasks inherit the limits that the server was started with.
        heads = bounded_heads(settings.connections_per_address, settings.proxies)
        server = _Server(
            uvicorn.Config(
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
            ),
            built.hang_up,
        )
        loop = asyncio.get_running_loop()
        count_what_nobody_catches(loop)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.leave)
        built.leadership.url = _url(_reachable(settings.host), listener)
        leading = asyncio.create_task(built.leadership.run())
        collecting: asyncio.Task[None] | None = None
        try:
            await _settled(built, leading)
            services = built.api.state.context.services
            await ensure_groups(services)
            # Objects that exist now stay for good, so the garbage collector need not check them again.
            gc.collect()
            gc.freeze()
            collecting = supervise("collect garbage", collect_forever)
            # The last step before the password is printed: if the start failed in between, it would be lost.
            made_up = None if settings.api_only else await ensure_admin(services.users, services.clock, admin_password)
            context = built.api.state.context
            async with (
                _ssh(settings, built, ssh),
                application_entrance(settings, context, built.root) as built.applications,
            ):
                serving = asyncio.create_task(server.serve(sockets=[listener]))
                built.is_ready = True
                _announce(settings, built, listener, made_up, console)
                await asyncio.wait({serving, leading}, return_when=asyncio.FIRST_COMPLETED)
                server.leave()
            await serving
        finally:
            built.is_ready = False
            if collecting is not None:
                collecting.cancel()
            leading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await leading
    console.ended()


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


async def _settled(built: Server, leading: asyncio.Task[None]) -> None:
    settled = asyncio.create_task(built.leadership.is_settled.wait())
    await asyncio.wait({settled, leading}, return_when=asyncio.FIRST_COMPLETED)
    if leading.done():
        settled.cancel()
        await leading


class _Server(uvicorn.Server):
    """Uvicorn without its signal handlers, which would repeat the signal after a clean stop.

    Nor does it check ten times a second whether it must stop: it waits for that.
    """

    def __init__(self, config: uvicorn.Config, hang_up: Callable[[], None]) -> None:
        super().__init__(config)
        self._hang_up = hang_up
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
        self._hang_up()


def _listen(host: str, port: int, option: str) -> socket.socket:
    """Open the port before anything else."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        message = os.strerror(error.errno) if error.errno else str(error)
        if error.errno == errno.EADDRINUSE:
            message = "another program listens there"
        raise BadConfiguration(
            f"cannot listen on {host} port {port}: {message}",
            f"choose another port with {option}, or {option} 0 for any free one",
        ) from error
    listener.setblocking(False)
    return listener


def _announce(
    settings: Settings, built: Server, listener: socket.socket, made_up: str | None, console: Console
) -> None:
    url = _url(settings.host, listener)
    if not settings.api_only:
        note_address(built.root, url)
    if settings.ready_file is not None:
        unfinished = settings.ready_file.with_suffix(".part")
        unfinished.write_text(
            json.dumps({"url": url, "pid": os.getpid(), **({"sshPort": built.ssh.port} if built.ssh else {})})
        )
        unfinished.replace(settings.ready_file)
    console.welcome(version("openpai"), url, made_up, ADMIN, is_open=not is_loopback(settings.host))
    if built.ssh is not None:
        console.ssh(built.ssh.port)


def _url(host: str, listener: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"


def _reachable(host: str) -> str:
    """Return the address under which other machines reach a server that listens on `host`."""
    if host not in ("0.0.0.0", "::", ""):  # noqa: S104  it is only compared
        return host
    family, far = (socket.AF_INET6, "2001:db8::1") if ":" in host else (socket.AF_INET, "192.0.2.1")
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: this only finds which local address would be used.
            probe.connect((far, 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
