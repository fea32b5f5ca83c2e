"""Commands in a running container, over a WebSocket with Kubernetes' channel protocol, version 5.

A message begins with the number of its channel. Version 5 adds a message that closes standard input, which version 4
cannot; older API servers speak version 4.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import aiohttp
import msgspec

from openpai.kube.errors import KubeError, error_of, silent
from openpai.kube.objects.kinds import PODS

if TYPE_CHECKING:
    from openpai.kube.connection import Connection

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
_STATUS: Final = 3
_RESIZE: Final = 4
_CLOSE: Final = 255
_PIECE: Final = 32 * 1024


class Output(NamedTuple):
    """A piece of what a command wrote."""

    channel: int
    """STDOUT or STDERR."""
    data: bytes


class ExecSession:
    """A command that runs in a container. Iterate over its output; `exit_code` is known when that ends."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, doing: str) -> None:
        self.exit_code: int | None = None
        """None as long as it runs."""
        self._socket = socket
        self._doing = doing

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection. The command may go on without it."""
        await self._socket.close()

    @property
    def can_close_stdin(self) -> bool:
        """Return whether the API server knows how to close standard input only."""
        return self._socket.protocol == PROTOCOLS[0]

    async def write(self, data: bytes) -> None:
        """Send to the command's standard input."""
        for start in range(0, len(data), _PIECE):
            await self._send(bytes((STDIN,)) + data[start : start + _PIECE])

    async def close_stdin(self) -> None:
        """Close the command's standard input: it reads the end of the file."""
        if self.can_close_stdin:
            await self._send(bytes((_CLOSE, STDIN)))

    async def resize(self, columns: int, rows: int) -> None:
        """Set the size of the command's terminal."""
        await self._send(bytes((_RESIZE,)) + msgspec.json.encode({"Width": columns, "Height": rows}))

    async def _send(self, message: bytes) -> None:
        try:
            await self._socket.send_bytes(message)
        except (aiohttp.ClientError, ConnectionError) as error:
            raise silent(self._doing, error, was_sent=True) from error

    def __aiter__(self) -> AsyncIterator[Output]:
        return self._outputs()

    async def _outputs(self) -> AsyncIterator[Output]:
        async for message in self._socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel in (STDOUT, STDERR):
                if data:
                    yield Output(channel, data)
            elif channel == _STATUS:
                self.exit_code = _exit_code(self._doing, data)
        if self.exit_code is None:
            raise silent(self._doing, "the connection was lost before the command ended", was_sent=True)

    async def collect(self) -> tuple[int, bytes, bytes]:
        """Return exit code, standard output and standard error once the command has ended."""
        found: dict[int, list[bytes]] = {STDOUT: [], STDERR: []}
        async for output in self:
            found[output.channel].append(output.data)
        return self.exit_code or 0, b"".join(found[STDOUT]), b"".join(found[STDERR])


async def open_exec(
    connection: Connection,
    name: str,
    namespace: str,
    command: Sequence[str],
    *,
    container: str,
    stdin: bool,
    tty: bool,
) -> ExecSession:
    """Start a command in a container of a pod."""
    doing = f"run {command[0]!r} in pods/{name} in {namespace}"
    more = [("command", part) for part in command]
    return await _open(connection, name, namespace, "exec", doing, more, container=container, stdin=stdin, tty=tty)


async def open_attach(connection: Connection, name: str, namespace: str, *, container: str, stdin: bool) -> ExecSession:
    """Attach to the command that a container was started with. Its exit code is in the pod, not in the session."""
    doing = f"attach to pods/{name} in {namespace}"
    return await _open(connection, name, namespace, "attach", doing, [], container=container, stdin=stdin, tty=False)


async def _open(
    connection: Connection,
    name: str,
    namespace: str,
    how: str,
    doing: str,
    more: list[tuple[str, str]],
    *,
    container: str,
    stdin: bool,
    tty: bool,
) -> ExecSession:
    # With a terminal, standard error goes where standard output goes.
    wanted = {"stdin": stdin, "stdout": True, "stderr": not tty, "tty": tty}
    params = [(key, "true") for key, value in wanted.items() if value] + more
    if container:
        params.append(("container", container))
    path = PODS.path(namespace, name, how)
    socket = await connection.socket(path, doing=doing, params=params, protocols=PROTOCOLS)
    return ExecSession(socket, doing)


def _exit_code(doing: str, data: bytes) -> int:
    status: dict[str, Any] = msgspec.json.decode(data)
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause.get("message", 1))
    failure: KubeError = error_of(doing, int(status.get("code") or 500), data)
    raise failure
