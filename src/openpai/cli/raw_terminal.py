"""Connects this terminal, or pipes, with a command in a task.

The terminal is raw while the command runs, so every key reaches the task, and is restored on every way out: the end of
the command, a lost connection, and signals. Enter, `~`, `.` closes the session, as in ssh.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from openpai.client.shells import RemoteShell

CLOSED: Final = 255
"""The exit code of a session that its user closed with `~.`, as of ssh."""
_PIECE: Final = 32 * 1024
_USUAL: Final = (80, 24)
_STDERR: Final = 2
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal asked this program to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Escapes:
    """Finds `~.` after a line end in what is typed; `~~` there sends one `~`."""

    def __init__(self) -> None:
        self._is_at_start = True
        self._has_tilde = False
        self.is_closed = False

    def take(self, data: bytes) -> bytes:
        """Return what is to be sent."""
        sent = bytearray()
        for byte in data:
            key = bytes((byte,))
            if self._has_tilde:
                self._has_tilde = False
                if key == b".":
                    self.is_closed = True
                    break
                sent += b"~" if key == b"~" else b"~" + key
            elif self._is_at_start and key == b"~":
                self._has_tilde = True
                continue
            else:
                sent += key
            self._is_at_start = key in (b"\r", b"\n")
        return bytes(sent)


def size() -> tuple[int, int]:
    """Return the columns and rows of this terminal."""
    # Not from COLUMNS, which many shells export and which does not follow the window.
    for file in (0, 1):
        with contextlib.suppress(OSError):
            found = os.get_terminal_size(file)
            if found.columns and found.lines:
                return found.columns, found.lines
    return _USUAL


def attach(shell: RemoteShell, *, is_terminal: bool, has_stdin: bool) -> int:
    """Pass everything on until the command ends; return its exit code."""
    sys.stdout.flush()
    with _ready(is_terminal) as wake:
        sender = threading.Thread(target=_send, args=(shell, wake, is_terminal, has_stdin), daemon=True)
        sender.start()
        for stream, data in shell:
            _write(stream, data)
    return CLOSED if shell.exit_code is None else shell.exit_code


@contextlib.contextmanager
def _ready(is_terminal: bool) -> Iterator[int]:
    """Make the terminal raw, and yield a pipe on which each change of its size writes a byte; restore it at the end."""
    wake, changed = os.pipe()
    os.set_blocking(changed, False)
    before = termios.tcgetattr(0) if is_terminal else None

    def resized(*_: Any) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(changed, b"w")

    def end(number: int, _frame: Any) -> None:
        raise Interrupted(number)

    handlers = {signal.SIGWINCH: resized} if is_terminal else {}
    former = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    former |= {number: signal.signal(number, end) for number in _ENDING}
    try:
        if before is not None:
            # What was typed before is kept.
            tty.setraw(0, termios.TCSADRAIN)
        yield wake
    except Interrupted as interrupted:
        sys.exit(128 + interrupted.number)
    finally:
        if before is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, before)
        for number, handler in former.items():
            signal.signal(number, handler)


def _send(shell: RemoteShell, wake: int, is_terminal: bool, has_stdin: bool) -> None:
    """Send what is typed, until its end; runs in a thread of its own, because the terminal may be slow."""
    escapes = Escapes()
    watched = [wake, 0] if has_stdin else [wake]
    if not has_stdin:
        shell.close_stdin()
    while True:
        ready, _, _ = select.select(watched, [], [])
        if wake in ready:
            os.read(wake, 1024)
            shell.resize(*size())
        if 0 not in ready:
            continue
        try:
            data = os.read(0, _PIECE)
        except OSError:
            data = b""
        if not data:
            shell.close_stdin()
            watched = [wake]
            continue
        shell.write(escapes.take(data) if is_terminal else data)
        if escapes.is_closed:
            shell.close()
            return


def _write(stream: int, data: bytes) -> None:
    """Write to standard output or standard error as it is: programs draw with what control sequences there are."""
    file = (sys.stderr if stream == _STDERR else sys.stdout).buffer
    file.write(data)
    file.flush()
