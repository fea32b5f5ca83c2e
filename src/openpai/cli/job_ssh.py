"""`pai job ssh`: open a shell in a running task, or connect to the SSH server that it runs itself."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

from openpai.cli import output, session
from openpai.cli.exits import Exit
from openpai.cli.job import Name
from openpai.cli.job_exec import run_in
from openpai.cli.options import option
from openpai.protocol.errors import InvalidParameters, Refused

if TYPE_CHECKING:
    from openpai.client import Client
    from openpai.client.model import SshTask


def ssh(
    name: Name,
    role: Annotated[str | None, option("--role -r ROLE", "Task role.")] = None,
    index: Annotated[int | None, option("--index -i I", "Task of the role.", min=0)] = None,
    connect: Annotated[bool, option("--connect -c", "Connect, instead of showing the command.")] = False,
    json: output.Json = False,
) -> int:
    """Open a shell in a running task, whatever its image.

    If a role has a port labelled `ssh`, its tasks are expected to run an SSH server there: then this shows how to
    reach them, and --connect runs ssh.
    """
    with session.connect() as pai:
        try:
            found = _reachable(pai, name)
        except Refused as error:
            if error.code != "NoJobSshInfoError" or connect or json or not sys.stdin.isatty():
                raise
            found = ()
    if not found:
        task = None if role is None else f"{role}/{index or 0}"
        return run_in(name, (), task, None, has_stdin=True, is_terminal=True)
    chosen = [one for one in found if role in (None, one.role) and index in (None, one.index)]
    if not chosen:
        known = ", ".join(one.name for one in found)
        raise Refused("NoJobSshInfoError", f"no such task of {name} can be reached", f"choose from: {known}")
    if connect:
        _replace_process(chosen[0])
    if output.as_json(json, [one.document for one in chosen]):
        return Exit.OK
    rows = [(one.name, one.host, str(one.port), one.command) for one in chosen]
    output.table(["TASK", "HOST", "PORT", "COMMAND"], rows, right=["PORT"])
    output.next_step(f"pai job ssh {name} --role {chosen[0].role} --index {chosen[0].index} --connect")
    return Exit.OK


def _reachable(pai: Client, name: str) -> tuple[SshTask, ...]:
    try:
        return pai.ssh(name)
    except Refused as error:
        # OpenPAI's answer is the same for a job that does not run yet and for one that has ended.
        if error.code != "NoJobSshInfoError" or not (job := pai.job(name)).is_final:
            raise
        message = f"job {job.full_name} is over; its tasks cannot be reached"
        raise Refused("FinishedJobError", message, f"start it again first: pai job start {name}") from error


def _replace_process(task: SshTask) -> None:
    """Replace this process by ssh; `--` keeps the server's host from being read as an option."""
    sys.stdout.flush()
    try:
        os.execvp("ssh", ["ssh", "-p", str(task.port), "-l", "root", "--", task.host])  # noqa: S606, S607
    except OSError as error:
        raise InvalidParameters(f"cannot run ssh: {error}", f"run it yourself: {task.command}") from error
