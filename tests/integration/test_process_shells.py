"""A shell on the process backend has exactly the rights of its task: user, groups, namespaces, cgroup, limits."""

from __future__ import annotations

import asyncio
from typing import Final

from openpai.ports.backend import Backend
from openpai.ports.shells import ShellCommand, Shells
from tests.integration.test_process_people import PeopleHarness, job_of, world

__all__ = ["world"]

PATIENCE_S: Final = 90
# What confines a process, as it sees it itself.
LOOK: Final = """
echo "id $(id -u) $(id -g) $(id -G)"
grep -E '^(Uid|Gid|Groups|CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status
for name in mnt pid ipc net uts user cgroup; do readlink /proc/self/ns/$name; done
cat /proc/self/cgroup
ulimit -S -n; ulimit -H -n; umask
echo "$HOME $USER $PAI_WORK_DIR $PWD $OPENPAI_TASK_DIRECTORY"
"""


async def _printed(backend: Backend, user: str, command: ShellCommand) -> str:
    assert isinstance(backend, Shells)
    shell = await backend.shell(job_of(user), command)
    out = b""
    async with asyncio.timeout(PATIENCE_S):
        while (piece := await shell.read()) is not None:
            out += piece.data
    await shell.close()
    return out.decode().replace("\r\n", "\n")


async def test_a_shell_is_confined_as_its_task_is(world: PeopleHarness) -> None:
    backend = await world.begin("ann", f"{LOOK}\necho done")
    task = world.output(job_of("ann")).partition("done")[0]
    assert "NoNewPrivs:\t1" in task
    assert await _printed(backend, "ann", ShellCommand(("sh", "-c", LOOK))) == task
    assert await _printed(backend, "ann", ShellCommand(("sh", "-c", LOOK), is_terminal=True)) == task


async def test_a_shell_keeps_no_way_out_of_its_task(world: PeopleHarness) -> None:
    backend = await world.begin("ann", "ls /proc/self/fd")
    await world.begin("bob", "true")
    tries = (
        "ls /proc/self/fd",
        f"cat {world.directory('bob')}/user.sh 2>&1",
        f"echo >{world.directory('ann')}/exit 2>&1 || echo refused",
        "nsenter -t 1 -m true 2>&1 && echo entered; grep -c . /proc/1/environ 2>&1",
    )
    message = [await _printed(backend, "ann", ShellCommand(("sh", "-c", each))) for each in tries]
    # No file of the server or of a namespace; what the server was started with, a task has as well.
    assert message[0].split() == world.output(job_of("ann")).split()[:-1]
    assert "cat:" in message[1]
    assert "refused" in message[2]
    assert "entered" not in message[3]


async def test_a_shell_after_a_restart_is_confined_too(world: PeopleHarness) -> None:
    await world.begin("ann", f"{LOOK}\necho done")
    task = world.output(job_of("ann")).partition("done")[0]
    await world.crash()
    backend = await world.start()
    assert await _printed(backend, "ann", ShellCommand(("sh", "-c", LOOK))) == task
