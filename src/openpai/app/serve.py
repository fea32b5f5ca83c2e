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
from collections.abc import Callable
from importlib.metadata import version
from types import ModuleType
from typing import Final, Protocol

from openpai.api.services import ServerSetting
from openpai.app.assembly import Server, build
from openpai.app.connection_limits import raise_file_limit
from openpai.app.console import Console
from openpai.app.datadir import note_address
from openpai.app.settings import Settings
from openpai.app.settings_check import check, is_loopback
from openpai.app.startup import ADMIN, ensure_admin, ensure_groups
from openpai.app.tracing import traces
from openpai.protocol.errors import BadConfiguration
from openpai.system.allocator import give_memory_back
from openpai.system.garbage import collect_forever, importing
from openpai.system.pauses import keep_threads_short
from openpai.system.supervision import count_what_nobody_catches, supervise

BACKLOG: Final = 2048


def serve(settings: Settings, admin_password: str | None, shown: tuple[ServerSetting, ...] = ()) -> None:
    """Run a server until SIGTERM or Ctrl-C. Raises Refused, before serving, for anything that cannot work."""
    check(settings)
    give_memory_back()
    keep_threads_short()
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
        # Only now: tasks inherit the limits that the server was started with.
        raise_file_limit()
        loop = asyncio.get_running_loop()
        count_what_nobody_catches(loop)
        leaving = Leaving(built.hang_up)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, leaving.leave)
        built.leadership.url = _url(_reachable(settings.host), listener)
        leading = asyncio.create_task(built.leadership.run())
        collecting: asyncio.Task[None] | None = None
        try:
            await _settled(built, leading, leaving)
            if leaving.asked.is_set():
                return
            # Only now, as a large part of a server's modules serves requests and no decision.
            entrances = await asyncio.to_thread(_read_entrances)
            await built.open_api()
            services = built.api.state.context.services
            await ensure_groups(services)
            # Objects that exist now stay for good, so the garbage collector need not check them again.
            gc.collect()
            gc.freeze()
            collecting = supervise("collect garbage", collect_forever)
            # The last step before the password is printed: if the start failed in between, it would be lost.
            made_up = None if settings.api_only else await ensure_admin(services.users, services.clock, admin_password)
            async with entrances.opened(settings, built, ssh):
                server = entrances.api_server(settings, built)
                serving = asyncio.create_task(server.serve(sockets=[listener]))
                leaving.begin(server)
                built.is_ready = True
                _announce(settings, built, listener, made_up, console)
                await asyncio.wait({serving, leading}, return_when=asyncio.FIRST_COMPLETED)
                leaving.leave()
            await serving
        finally:
            built.is_ready = False
            if collecting is not None:
                collecting.cancel()
            leading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await leading
    console.ended()


def _read_entrances() -> ModuleType:
    with importing():
        from openpai.app import entrances
        from openpai.diagnosis.rules import built_in

        # The first failure of a task needs them.
        built_in()
    return entrances


async def _settled(built: Server, leading: asyncio.Task[None], leaving: Leaving) -> None:
    """Return once the server may serve, or is asked to stop: that may be all it ever does without its cluster."""
    settled = asyncio.create_task(built.leadership.is_settled.wait())
    asked = asyncio.create_task(leaving.asked.wait())
    await asyncio.wait({settled, asked, leading}, return_when=asyncio.FIRST_COMPLETED)
    settled.cancel()
    asked.cancel()
    if leading.done():
        await leading


class Leaves(Protocol):
    """A server that can be asked to stop."""

    def leave(self) -> None:
        """Start to stop; on a second call, do not wait for open requests."""
        ...


class Leaving:
    """Passes the signals to stop on to the server, also those that came before there was one."""

    def __init__(self, hang_up: Callable[[], None]) -> None:
        self._hang_up = hang_up
        self._server: Leaves | None = None
        self.asked = asyncio.Event()

    def begin(self, server: Leaves) -> None:
        """Set the server to stop."""
        self._server = server
        if self.asked.is_set():
            server.leave()

    def leave(self) -> None:
        """Start to stop."""
        self.asked.set()
        if self._server is not None:
            self._server.leave()
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
