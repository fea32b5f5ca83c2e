"""Runs commands of users in containers, by the Engine's exec.

The Engine gives a command the user, capabilities, limits, environment and directory of its container. It cannot end
one, so each command is marked in its environment and ended by another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from pathlib import Path
from typing import Final

from openpai.backends.docker.engine import Conflict, Engine, EngineError, NoContainer
from openpai.backends.docker.execs import EngineExec
from openpai.backends.host.attempts import HostAttempt
from openpai.backends.host.listening import connect_to_task
from openpai.backends.host.relays import RelayStream
from openpai.backends.host.shells import EndsSessions
from openpai.backends.host.streams import connect_inside
from openpai.backends.host.task_use import cgroup_mounts, cgroup_places
from openpai.lifecycle.model import AttemptKey
from openpai.ports.shells import STDERR, STDOUT, Output, ShellCommand, Stream, is_starting, not_running
from openpai.protocol.errors import Unavailable
from openpai.runtime.shell import end_words, relay_words, start_words
from openpai.system.kernel_files import processes_in

_SIGNAL_PATIENCE_S: Final = 15.0
_STDERR: Final = 2
_END_OF_FILE: Final = b"\x04"
_LOST: Final = 255


class ContainerShell:
    """A command in a container."""

    def __init__(self, shells: ContainerShells, name: str, session: str, run: EngineExec, *, is_terminal: bool) -> None:
        self._shells = shells
        self._name = name
        self._session = session
        self._run = run
        self._is_terminal = is_terminal
        self._code: int | None = None
        self._is_closed = False

    @property
    def exit_code(self) -> int | None:
        """Return the exit code; None until `read` has returned None."""
        return self._code

    async def read(self) -> Output | None:
        """Wait for output and return it; None once the command has ended."""
        piece = await self._run.read()
        if piece is not None:
            return Output(STDERR if piece.stream == _STDERR else STDOUT, piece.data)
        if self._code is None and not self._is_closed:
            code = await self._run.code()
            self._code = _LOST if code is None else code
        return None

    async def write(self, data: bytes) -> None:
        """Send to standard input."""
        await self._run.write(data)

    async def close_stdin(self) -> None:
        """Let the command read the end of its standard input."""
        if self._is_terminal:
            await self._run.write(_END_OF_FILE)
        else:
            self._run.close_stdin()

    async def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal."""
        if self._is_terminal:
            await self._run.resize(columns, rows)

    async def close(self) -> None:
        """End the command if it still runs."""
        if self._is_closed:
            return
        self._is_closed = True
        # First, because an Engine whose output no program reads may not start what ends the command.
        await self._run.close()
        if self._code is None:
            self._shells.end(self._name, self._session)


class ContainerShells(EndsSessions):
    """Starts commands in the containers of one backend."""

    def __init__(self, engine: Engine, *, is_on_host_network: bool = False) -> None:
        super().__init__()
        self._engine = engine
        self._is_on_host_network = is_on_host_network
        self._mounts = cgroup_mounts()

    async def start(self, attempt: HostAttempt, command: ShellCommand) -> ContainerShell:
        """Start a command; raise Refused if the container does not run, Unavailable if the Engine does not answer."""
        session = secrets.token_hex(8)
        words = start_words(session, "", command.term_or_none, command.words)
        run = await self._run(attempt, words, is_terminal=command.is_terminal)
        shell = ContainerShell(self, attempt.name, session, run, is_terminal=command.is_terminal)
        if command.is_terminal:
            await run.resize(command.columns, command.rows)
        return shell

    async def connect(self, attempt: HostAttempt, port: int) -> Stream:
        """Connect to a port inside the container's network: directly as root, else by a program of the image.

        On the machine's network a process of the container has to listen there.
        """
        if os.geteuid() == 0:
            with contextlib.suppress(OSError):
                pid = await self._pid(attempt)
                if not self._is_on_host_network:
                    return await connect_inside(pid, port)
                if cgroup := cgroup_places(attempt.key, pid, self._mounts, has_network=False).cgroup:
                    return await connect_to_task(
                        attempt.key, port, lambda: processes_in(cgroup), network=f"/proc/{pid}/net",
                        reach=lambda address, port: connect_inside(pid, port, address),
                    )  # fmt: skip
        command = ShellCommand(relay_words(port, is_own=self._is_on_host_network))
        return await RelayStream.open(await self.start(attempt, command), attempt.key, port)

    async def _signal(self, place: str, session: str, signal: str) -> None:
        with contextlib.suppress(EngineError, TimeoutError):
            async with asyncio.timeout(_SIGNAL_PATIENCE_S):
                run = await self._engine.exec(place, end_words(session, signal), is_terminal=False)
                while await run.read() is not None:
                    pass
                await run.close()

    async def _run(self, attempt: HostAttempt, words: tuple[str, ...], *, is_terminal: bool) -> EngineExec:
        self._require_begun(attempt)
        try:
            return await self._engine.exec(attempt.name, words, is_terminal=is_terminal)
        except (NoContainer, Conflict) as error:
            raise not_running(attempt.key) from error
        except EngineError as error:
            raise Unavailable(f"the command cannot be started: {error}") from error

    async def _pid(self, attempt: HostAttempt) -> int:
        """Return the number of the container's first process; raise OSError if that is another one here."""
        try:
            pid, id_ = await self._engine.first_process(attempt.name)
        except NoContainer as error:
            raise not_running(attempt.key) from error
        except EngineError as error:
            raise Unavailable(f"the container cannot be found: {error}") from error
        # The Engine of another machine, or of a virtual one, has other processes with the numbers of those here.
        if id_ not in await asyncio.to_thread(Path(f"/proc/{pid}/cgroup").read_text):
            raise ProcessLookupError(f"process {pid} is not of container {id_}")
        return pid

    @staticmethod
    def _require_begun(attempt: HostAttempt) -> None:
        key: AttemptKey = attempt.key
        ticket = attempt.directory.ticket()
        if ticket is None or ticket.pid is None:
            raise is_starting(key)
