"""What a key costs that a user types into a shell, and what wakes one that waits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any

from openpai.backends.process.terminals import ProcessShell, spawn_shell
from openpai.ports.shells import STDOUT, Output, ShellCommand

KEYS = 20
# The terminal echoes nothing itself once this was said.
ECHO = ("/bin/sh", "-c", "stty raw -echo; echo ready; exec cat")


def begin(words: tuple[str, ...], *, is_terminal: bool) -> ProcessShell:
    command = ShellCommand(words, is_terminal)
    return spawn_shell(words, dict(os.environ), command, inherited=(), owner=None, first_descriptor=7)


async def test_a_key_and_its_echo_make_no_task_of_the_event_loop() -> None:
    made: list[object] = []

    def count(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
        made.append(work)
        return asyncio.Task(work, loop=loop, **options)

    shell = begin(ECHO, is_terminal=True)
    assert (piece := await shell.read()) is not None
    assert piece.data.startswith(b"ready")
    asyncio.get_running_loop().set_task_factory(count)
    for _ in range(KEYS):
        await shell.write(b"k")
        while (piece := await shell.read()) is not None and b"k" not in piece.data:
            pass
    assert made == []
    asyncio.get_running_loop().set_task_factory(None)
    await shell.close()


async def test_a_reader_that_waits_is_woken_by_the_end_of_the_command_and_by_its_close() -> None:
    ends, closed = begin(("/bin/sh", "-c", "exit 3"), is_terminal=False), begin(("/bin/cat",), is_terminal=False)
    assert await ends.read() is None
    assert ends.exit_code == 3
    waiting = asyncio.create_task(closed.read())
    await asyncio.sleep(0)
    await closed.close()
    assert await waiting is None
    await ends.close()


async def test_a_writer_that_waits_is_woken_when_its_command_reads_and_when_it_ends() -> None:
    slow = begin(("/bin/sh", "-c", "head -c 1; wc -c"), is_terminal=False)
    writing = asyncio.create_task(slow.write(bytes(1 << 20)))
    assert await slow.read() == Output(STDOUT, b"\0")
    await writing
    await slow.close_stdin()
    assert await slow.read() is not None
    await slow.close()
    deaf = begin(("/bin/sh", "-c", "exec sleep 0.1"), is_terminal=False)
    await deaf.write(bytes(1 << 20))
    await deaf.close()
