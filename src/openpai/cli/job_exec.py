"""`pai job exec`: run a command in a running task, or a shell."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

from openpai.cli import session
from openpai.cli.job import Name
from openpai.cli.options import argument, option
from openpai.protocol.errors import InvalidParameters

Task = Annotated[
    str | None, option("--task ROLE-INDEX", "Task, as `worker-0` or `worker`; needed if the job has several.")
]
Attempt = Annotated[int | None, option("--attempt N", "Attempt of the task [default: the newest].", min=1)]


def exec_(
    name: Name,
    command: Annotated[list[str] | None, argument("-- COMMAND", "Command and its arguments; a shell without.")] = None,
    task: Task = None,
    attempt: Attempt = None,
    interactive: Annotated[bool, option("--interactive -i", "Pass standard input on.")] = False,
    terminal: Annotated[bool, option("--tty -t", "Run it on a terminal of its own.")] = False,
) -> int:
    """Run a command in a running task; its exit code is that of this command.

    Nothing needs to be installed in the image. Without a command, or with -it, it gets a terminal; Enter, then `~.`
    closes a session that hangs.
    """
    return run_in(name, command or (), task, attempt, has_stdin=interactive, is_terminal=terminal)


def run_in(
    name: str,
    words: Sequence[str],
    task: str | None,
    attempt: int | None,
    *,
    has_stdin: bool,
    is_terminal: bool,
) -> int:
    """Run a command in a task with this terminal; return its exit code."""
    from openpai.cli import raw_terminal
    from openpai.client.shells import open_shell, task_of

    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not words and not is_terminal:
        is_terminal, has_stdin = has_terminal, True
    if is_terminal and has_stdin and not sys.stdin.isatty():
        raise InvalidParameters("standard input is not a terminal", "leave out --tty, or -t of -it")
    with session.connect() as pai:
        place = task_of(pai, name, task, None if attempt is None else attempt - 1)
        size, term = raw_terminal.size(), os.environ.get("TERM", "")
        with open_shell(pai, place, words, is_terminal=is_terminal, size=size, term=term) as shell:
            return raw_terminal.attach(shell, is_terminal=is_terminal and has_stdin, has_stdin=has_stdin)
