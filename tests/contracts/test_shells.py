"""What every backend promises about commands in its tasks; each backend runs these tests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import KillTask
from openpai.ports.shells import Shell, ShellCommand, Shells
from openpai.protocol.errors import Refused, Unavailable
from tests.contracts.harness import Harness, needs_shell
from tests.contracts.seen import PATIENCE_S, Watch, a_key, a_launch


async def _running(harness: Harness, commands: str = "", **launch: Any) -> tuple[Shells, Watch]:
    """Return a backend with one running task, whose commands print `ready`."""
    backend = await harness.start()
    assert isinstance(backend, Shells)
    if not harness.has_shells:
        pytest.skip(f"{type(harness).__name__} has no node that could run a command")
    await backend.apply([a_launch(harness, a_key(), commands or harness.programs.waits(), **launch)])
    watch = Watch(backend)
    await watch.until_running(a_key())
    await harness.until_printed(a_key(), "ready")
    return backend, watch


async def _all(shell: Shell) -> tuple[bytes, bytes, int | None]:
    """Return both outputs and the exit code of a command that ends."""
    found = {1: b"", 2: b""}
    async with asyncio.timeout(PATIENCE_S):
        while (piece := await shell.read()) is not None:
            found[piece.stream] += piece.data
    await shell.close()
    return found[1], found[2], shell.exit_code


async def _until(shell: Shell, text: bytes) -> bytes:
    message = b""
    async with asyncio.timeout(PATIENCE_S):
        while text not in message:
            piece = await shell.read()
            assert piece is not None, message
            message += piece.data
    return message


async def _until_sized(shell: Shell, size: bytes) -> None:
    """Ask a shell for the size of its terminal until it is this one: some systems set it a moment later."""

    async def ask() -> None:
        while True:
            await shell.write(b"stty size\n")
            await asyncio.sleep(0.5)

    asking = asyncio.create_task(ask())
    try:
        await _until(shell, size)
    finally:
        asking.cancel()


async def test_output_error_and_exit_code_of_a_command(harness: Harness) -> None:
    shells, _ = await _running(harness)
    assert await _all(await shells.shell(a_key(), ShellCommand(("echo", "a", "b")))) == (b"a b\n", b"", 0)
    wrong = await shells.shell(a_key(), ShellCommand(("sh", "-c", "echo wrong >&2")))
    assert await _all(wrong) == (b"", b"wrong\n", 0)
    for code in (0, 3, 255):
        assert (await _all(await shells.shell(a_key(), ShellCommand(("sh", "-c", f"exit {code}")))))[2] == code
    *_, code = await _all(await shells.shell(a_key(), ShellCommand(("no-such-program",))))
    assert code == 127


async def test_a_task_and_its_commands_have_what_many_tasks_share(harness: Harness) -> None:
    needs_shell(harness)
    shared = {f"PAI_HOST_IP_worker_{index}": f"10.0.0.{index}" for index in range(600)}
    shared["PAI_ODD"] = "a 'b' $HOME"
    hosts = "".join(f"worker {index} 10.0.0.{index}\n" for index in range(600))
    own = {"PAI_HOST_IP_worker_8": "10.9.9.9"}
    show = 'printf "%s|" "$PAI_HOST_IP_worker_7" "$PAI_HOST_IP_worker_8" "$PAI_ODD"'
    commands = f"{show}\n{harness.programs.waits()}"
    shells, _ = await _running(harness, commands, hosts=hosts, shared_env=shared, env=own)
    expected = "10.0.0.7|10.9.9.9|a 'b' $HOME|"
    assert harness.output(a_key()) == f"{expected}ready\n"
    printed = await _all(await shells.shell(a_key(), ShellCommand(("sh", "-c", show))))
    assert printed == (expected.encode(), b"", 0)


async def test_standard_input_reaches_the_command_and_ends(harness: Harness) -> None:
    shells, _ = await _running(harness)
    shell = await shells.shell(a_key(), ShellCommand(("cat",)))
    sent = bytes(range(256)) * 4096

    async def send() -> None:
        await shell.write(sent)
        await shell.close_stdin()

    sending = asyncio.create_task(send())
    assert await _all(shell) == (sent, b"", 0)
    await sending


async def test_a_terminal_has_its_size_and_merges_outputs(harness: Harness) -> None:
    shells, _ = await _running(harness)
    shell = await shells.shell(a_key(), ShellCommand(is_terminal=True, columns=101, rows=33))
    await _until_sized(shell, b"33 101")
    await shell.close()
    wrong = await shells.shell(a_key(), ShellCommand(("sh", "-c", "echo wrong >&2"), is_terminal=True))
    assert await _all(wrong) == (b"wrong\r\n", b"", 0)


async def test_a_shell_without_a_command_takes_lines_and_is_resized(harness: Harness) -> None:
    shells, _ = await _running(harness)
    shell = await shells.shell(a_key(), ShellCommand(is_terminal=True, term="dumb"))
    await shell.resize(120, 40)
    await _until_sized(shell, b"40 120")
    await shell.write(b"exit 7\n")
    assert (await _all(shell))[2] == 7


async def test_a_command_waits_while_its_output_is_not_read(harness: Harness) -> None:
    shells, _ = await _running(harness)
    shell = await shells.shell(a_key(), ShellCommand(("cat",)))
    sent = 0

    async def send() -> None:
        nonlocal sent
        while True:
            await shell.write(b"x" * 65536)
            sent += 65536

    sending = asyncio.create_task(send())
    before = -1
    while sent != before:
        before = sent
        await asyncio.sleep(0.2)
    sending.cancel()
    # Each connection on the way through an API server and a kubelet holds megabytes, more of them on a busy machine.
    assert sent < 256 << 20
    await shell.close()


async def test_closing_ends_the_command(harness: Harness) -> None:
    shells, _ = await _running(harness)
    shell = await shells.shell(a_key(), ShellCommand(("sh", "-c", "echo here"), is_terminal=True))
    await _all(shell)
    shell = await shells.shell(a_key(), ShellCommand(is_terminal=True))
    # A terminal echoes what is typed, even before the shell runs: only the answer proves that it does.
    await shell.resize(120, 40)
    await _until_sized(shell, b"40 120")
    before = harness.processes(a_key())
    await shell.close()
    await shell.close()
    if harness.runs_shell:
        await harness.until(lambda: harness.processes(a_key()) < before)


async def test_a_command_ends_with_its_task(harness: Harness) -> None:
    shells, watch = await _running(harness)
    shell = await shells.shell(a_key(), ShellCommand(("sleep", "infinity")))
    await shells.apply([KillTask(a_key(), 1.0)])  # type: ignore[attr-defined]
    _, _, code = await _all(shell)
    assert code != 0
    await watch.until_over(a_key())
    with pytest.raises(Refused) as refused:
        await shells.shell(a_key(), ShellCommand(("true",)))
    assert refused.value.code == "NoRunningTaskError"


async def test_there_is_no_shell_where_no_task_runs(harness: Harness) -> None:
    backend = await harness.start()
    assert isinstance(backend, Shells)
    other: AttemptKey = a_key(17)
    with pytest.raises(Refused) as refused:
        await backend.shell(other, ShellCommand(("true",)))
    assert refused.value.code == "NoRunningTaskError"
    with pytest.raises(Refused):
        await backend.connect(other, 8080)


async def test_a_port_without_a_program_is_unavailable(harness: Harness) -> None:
    shells, _ = await _running(harness)
    with pytest.raises(Unavailable):
        await shells.connect(a_key(), 9)
