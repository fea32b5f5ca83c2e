"""Runs commands of users in pods, by the API server's exec.

A pod's node gives a command the user, limits, environment and directory of the container. It may go on when its
connection is closed, so each command is marked in its environment and ended by another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Final

from openpai.backends.host.relays import RelayStream
from openpai.backends.host.shells import EndsSessions
from openpai.backends.kubernetes.attempts import PodAttempt
from openpai.backends.kubernetes.pods import CONTAINER
from openpai.backends.kubernetes.variables import loading
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.exec import ExecSession
from openpai.kube.exec import Output as Piece
from openpai.ports.shells import Output, ShellCommand, Stream, not_running
from openpai.protocol.errors import PaiError, Unavailable
from openpai.runtime.shell import end_words, relay_words, start_words

_SIGNAL_PATIENCE_S: Final = 15.0
_END_OF_FILE: Final = b"\x04"
_LOST: Final = 255


class PodShell:
    """A command in the container of a pod."""

    def __init__(self, shells: PodShells, pod: str, session: str, run: ExecSession, *, is_terminal: bool) -> None:
        self._shells = shells
        self._pod = pod
        self._session = session
        self._run = run
        self._pieces: AsyncIterator[Piece] = aiter(run)
        self._is_terminal = is_terminal
        self._code: int | None = None
        self._is_closed = False

    @property
    def exit_code(self) -> int | None:
        """Return the exit code; None until `read` has returned None."""
        return self._code

    async def read(self) -> Output | None:
        """Wait for output and return it; None once the command has ended."""
        try:
            piece = await anext(self._pieces)
        except asyncio.CancelledError:
            # A generator ends with what was awaited in it; the output goes on.
            self._pieces = aiter(self._run)
            raise
        except StopAsyncIteration:
            self._code = _LOST if self._run.exit_code is None else self._run.exit_code
            return None
        except KubeError:
            # The connection to its node is lost, as when the pod is removed.
            self._code = _LOST
            return None
        return Output(piece.channel, piece.data)

    async def write(self, data: bytes) -> None:
        """Send to standard input; what an ended command would get is lost."""
        with contextlib.suppress(KubeError):
            await self._run.write(data)

    async def close_stdin(self) -> None:
        """Let the command read the end of its standard input."""
        with contextlib.suppress(KubeError):
            await (self._run.write(_END_OF_FILE) if self._is_terminal else self._run.close_stdin())

    async def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal."""
        if self._is_terminal:
            with contextlib.suppress(KubeError):
                await self._run.resize(columns, rows)

    async def close(self) -> None:
        """End the command if it still runs."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._run.exit_code is None:
            self._shells.end(self._pod, self._session)
        with contextlib.suppress(KubeError):
            await self._run.close()


class PodShells(EndsSessions):
    """Starts commands in the pods of one namespace."""

    def __init__(self, client: KubeClient, namespace: str, *, is_on_host_network: bool = False) -> None:
        super().__init__()
        self._client = client
        self._is_on_host_network = is_on_host_network
        self._namespace = namespace

    async def start(self, attempt: PodAttempt, command: ShellCommand) -> PodShell:
        """Start a command; raise Refused if the pod does not run, and Unavailable if it cannot be reached."""
        session = secrets.token_hex(8)
        words = loading(start_words(session, "", command.term_or_none, command.words))
        try:
            run = await self._client.exec(
                attempt.name, self._namespace, words, container=CONTAINER, stdin=True, tty=command.is_terminal
            )
        except KubeError as error:
            if error.http == 404:
                raise not_running(attempt.key) from error
            raise Unavailable(f"the command cannot be started: {error.message}") from error
        shell = PodShell(self, attempt.name, session, run, is_terminal=command.is_terminal)
        await shell.resize(command.columns, command.rows)
        return shell

    async def connect(self, attempt: PodAttempt, port: int) -> Stream:
        """Connect to a port by a program of the image: Kubernetes' own port-forward speaks SPDY inside a WebSocket."""
        words = relay_words(port, is_own=self._is_on_host_network)
        return await RelayStream.open(await self.start(attempt, ShellCommand(words)), attempt.key, port)

    async def _signal(self, place: str, session: str, signal: str) -> None:
        with contextlib.suppress(PaiError, TimeoutError):
            async with asyncio.timeout(_SIGNAL_PATIENCE_S):
                words = end_words(session, signal)
                async with await self._client.exec(place, self._namespace, words, container=CONTAINER) as run:
                    await run.collect()
