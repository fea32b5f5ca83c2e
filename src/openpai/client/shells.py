"""Commands in running tasks and connections to their ports, over WebSockets.

with open_shell(pai, task_of(pai, "train"), ["nvidia-smi"]) as shell:
    for stream, data in shell:
        os.write(stream, data)
print(shell.exit_code)
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import quote, urlencode

import httpx
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from openpai.client.calls.jobs import newest, task_path
from openpai.client.calls_core import API, Call, finished, nothing
from openpai.client.client import Client
from openpai.client.model import JobDetail
from openpai.client.retry import error_of, is_loopback, unreachable
from openpai.protocol.errors import InvalidParameters, PaiError, Refused, Unavailable

PIECE: Final = 32 * 1024
STDOUT: Final = 1
_OPEN_S: Final = 30.0
_MESSAGE_MAX: Final = 1 << 20
_END, _RESIZE, _CLOSE = 3, 4, 255


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """One attempt of a task."""

    path: str
    """Its path in the API."""
    name: str
    job: str


class RemoteShell:
    """A command in a task, or a connection to a port of it. One thread reads, and others may write."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.exit_code: int | None = None
        """None until the command has ended."""
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield the stream and the bytes of each piece of output; raise Refused or Unavailable if it was cut off."""
        try:
            for message in self._socket:
                data = message if isinstance(message, bytes) else message.encode()
                if data[:1] == bytes((_END,)):
                    self._finish(data[1:])
                elif len(data) > 1:
                    yield data[0], data[1:]
        except ConnectionClosed as error:
            if self.exit_code is None and not self._is_closed:
                raise _cut_off() from error
        if self.exit_code is None and not self._is_closed:
            raise _cut_off()

    def write(self, data: bytes) -> None:
        """Send to standard input, waiting while the command does not read."""
        try:
            for start in range(0, len(data), PIECE):
                self._socket.send(b"\x00" + data[start : start + PIECE])
        except ConnectionClosed:
            # The reader finds out why.
            return

    def close_stdin(self) -> None:
        """Let the command read the end of its standard input."""
        self._send(bytes((_CLOSE,)))

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal."""
        self._send(bytes((_RESIZE,)) + json.dumps({"columns": columns, "rows": rows}).encode())

    def close(self) -> None:
        """Close the connection, which ends the command."""
        self._is_closed = True
        self._socket.close()

    def _send(self, message: bytes) -> None:
        try:
            self._socket.send(message)
        except ConnectionClosed:
            return

    def _finish(self, data: bytes) -> None:
        ending: dict[str, Any] = json.loads(data)
        if "exitCode" not in ending:
            raise Refused(str(ending.get("code", "")), str(ending.get("message", "")), str(ending.get("advice", "")))
        self.exit_code = -1 if ending["exitCode"] is None else int(ending["exitCode"])


def task_of(pai: Client, job: str, task: str | None = None, attempt: int | None = None) -> TaskPlace:
    """Return the newest attempt of a task, or another one; `task` is `role-index`, `role`, or the only one if None."""
    detail = pai.job(job)
    role, index = _chosen(detail, task)
    found, job_attempt = newest(detail, role, index, attempt)
    return TaskPlace(f"{task_path(pai.path(job), role, index, job_attempt)}/{found}", f"{role}-{index}", job)


def open_shell(
    pai: Client,
    place: TaskPlace,
    words: Sequence[str] = (),
    *,
    is_terminal: bool = False,
    size: tuple[int, int] = (80, 24),
    term: str = "",
) -> RemoteShell:
    """Start a command in a task, a shell if there are no words; raise what the server refuses it with."""
    query: list[tuple[str, str]] = [("command", word) for word in words]
    if is_terminal:
        query += [("tty", "true"), ("columns", str(size[0])), ("rows", str(size[1])), ("term", term)]
    return RemoteShell(_connect(pai, f"{place.path}/exec", query))


def check_port(pai: Client, place: TaskPlace, port: int) -> None:
    """Raise what the server would refuse a connection to a port with; whether anything listens is not asked."""
    finished(pai.wire.ask(Call("POST", f"{place.path}/ports/{port}", nothing, is_repeatable=True)))


def open_port(pai: Client, place: TaskPlace, port: int) -> RemoteShell:
    """Connect to a TCP port of a task."""
    return RemoteShell(_connect(pai, f"{place.path}/ports/{port}", []))


def _connect(pai: Client, path: str, query: Sequence[tuple[str, str]]) -> ClientConnection:
    place = f"{API}{path}{'?' + urlencode(query, quote_via=quote) if query else ''}"
    url = f"ws{pai.url.removeprefix('http')}{place}"
    secure = httpx.create_ssl_context() if pai.url.startswith("https:") else None
    try:
        # Its use without `with` is deprecated; here, `RemoteShell.close` ends what begins.
        return connect(
            url,
            ssl=secure if isinstance(secure, ssl.SSLContext) else None,
            additional_headers=pai.wire.authorization,
            compression=None,
            max_size=_MESSAGE_MAX,
            open_timeout=_OPEN_S,
            # The server keeps the connection alive, and a paused terminal must not break it.
            ping_interval=None,
            proxy=None if is_loopback(pai.url) else True,
            max_queue=4,
        ).__enter__()
    except InvalidStatus as refused:
        raise _error_of(refused, f"{pai.url}{API}{path}") from refused
    except (OSError, TimeoutError, InvalidHandshake) as error:
        raise unreachable(pai.url, httpx.ConnectError(str(error) or type(error).__name__)) from error


def _error_of(refused: InvalidStatus, url: str) -> PaiError:
    answer = refused.response
    request = httpx.Request("GET", url)
    return error_of(httpx.Response(answer.status_code, content=bytes(answer.body or b""), request=request))


def _cut_off() -> Unavailable:
    message = "the connection to the task was lost, and its command was ended with it"
    return Unavailable(message, "check that the platform is up, and start the command again")


def _chosen(job: JobDetail, task: str | None) -> tuple[str, int]:
    known = [(one.role, one.index) for one in job.tasks]
    if task is None:
        running = [(one.role, one.index) for one in job.tasks if not one.is_final] or known
        if len(running) == 1:
            return running[0]
        shown = ", ".join(f"{role}-{index}" for role, index in running[:5])
        if not running:
            raise Refused("NoTaskLogError", f"job {job.full_name} has no tasks yet", "try again later")
        more = " and more" if len(running) > 5 else ""
        raise InvalidParameters(
            f"job {job.full_name} has {len(running)} tasks: {shown}{more}", f"choose one: --task {shown.split(',')[0]}"
        )
    role, mark, number = task.partition("/")
    if not mark and "-" in task and task not in {role for role, _ in known}:
        role, mark, number = task.rpartition("-")
    if mark and not (number.isascii() and number.isdecimal() and len(number) < 10):
        raise InvalidParameters(f"{task!r} is not a task", "name it as `pai job show` does, such as worker-0")
    return role, int(number) if mark else 0
