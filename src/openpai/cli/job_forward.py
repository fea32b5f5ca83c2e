"""`pai job forward`: a port of this machine that leads to a port of a running task."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import output, session
from openpai.cli.job import Name
from openpai.cli.job_exec import Attempt, Task
from openpai.cli.options import argument, option
from openpai.protocol.errors import InvalidParameters, PaiError

if TYPE_CHECKING:
    from openpai.client import Client
    from openpai.client.shells import RemoteShell, TaskPlace

_PIECE: Final = 32 * 1024
_AT_ONCE: Final = 64


def forward(
    name: Name,
    ports: Annotated[list[str], argument("[LOCAL:]REMOTE", "Port here and port in the task; 0 here is any free one.")],
    task: Task = None,
    attempt: Attempt = None,
    address: Annotated[str, option("--address ADDRESS", "Address of this machine to listen on.")] = "127.0.0.1",
    json: output.Json = False,
) -> None:
    """Forward ports of this machine to a running task until Ctrl-C.

    Every program that reaches the address can use it; the default is reached from this machine only.
    """
    from openpai.client.shells import check_port, task_of

    pairs = [_pair(text) for text in ports]
    with session.connect() as pai, contextlib.ExitStack() as stack:
        place = task_of(pai, name, task, None if attempt is None else attempt - 1)
        for here, there in pairs:
            check_port(pai, place, there)
            listener = stack.enter_context(_listen(address, here))
            local = listener.getsockname()[1]
            if json:
                output.json_line({"address": address, "port": local, "task": place.name, "taskPort": there})
            else:
                output.say(f"Forwarding {address}:{local} to port {there} of task {place.name}; end with Ctrl-C.")
            sys.stdout.flush()
            threading.Thread(target=_accept, args=(pai, place, listener, there), daemon=True).start()
        threading.Event().wait()


def _accept(pai: Client, place: TaskPlace, listener: socket.socket, port: int) -> None:
    turns = threading.Semaphore(_AT_ONCE)
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        turns.acquire()
        threading.Thread(target=_serve, args=(pai, place, connection, port, turns), daemon=True).start()


def _serve(pai: Client, place: TaskPlace, connection: socket.socket, port: int, turns: threading.Semaphore) -> None:
    from openpai.client.shells import open_port

    try:
        with connection, open_port(pai, place, port) as remote:
            threading.Thread(target=_send, args=(connection, remote), daemon=True).start()
            for _, data in remote:
                connection.sendall(data)
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
    except PaiError as error:
        sys.stderr.write(f"pai: {error.message}\n")
    except OSError:
        return
    finally:
        turns.release()


def _send(connection: socket.socket, remote: RemoteShell) -> None:
    with contextlib.suppress(OSError):
        while data := connection.recv(_PIECE):
            remote.write(data)
    remote.close_stdin()


def _listen(address: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen()
    except OSError as error:
        listener.close()
        message = f"cannot listen on {address} port {port}: {error.strerror}"
        raise InvalidParameters(message, "choose another port, or 0 for any free one") from error
    return listener


def _pair(text: str) -> tuple[int, int]:
    here, colon, there = text.rpartition(":")
    numbers = (here if colon else there, there)
    if not all(number.isascii() and number.isdecimal() and int(number) <= 65535 for number in numbers) or there == "0":
        raise InvalidParameters(f"{text!r} is not a pair of ports", "write LOCAL:REMOTE, such as 8888:8888")
    return int(numbers[0]), int(numbers[1])
