"""`pai job ssh`: into a running task, or how to get there."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from openpai.cli import output, session
from openpai.cli.job import Name
from openpai.protocol.errors import Refused

if TYPE_CHECKING:
    from openpai.client import Client
    from openpai.client.model import SshTask


def ssh(
    name: Name,
    role: Annotated[str | None, typer.Option("--role", "-r", metavar="ROLE", help="Task role.")] = None,
    index: Annotated[int | None, typer.Option("--index", "-i", metavar="I", min=0, help="Task of the role.")] = None,
    connect: Annotated[bool, typer.Option("--connect", "-c", help="Connect, instead of saying how.")] = False,
    json: output.Json = False,
) -> None:
    """Say how to reach a job's running tasks by SSH, or connect to one.

    A task can be reached when its role asks for a port named `ssh` and runs a server there.
    """
    with session.connect() as pai:
        found = _doors(pai, name)
    chosen = [one for one in found if role in (None, one.role) and index in (None, one.index)]
    if not chosen:
        known = ", ".join(one.name for one in found)
        raise Refused("NoJobSshInfoError", f"no such task of {name} can be reached", f"these can: {known}")
    if connect:
        _become(chosen[0])
    if json:
        output.document([one.document for one in chosen])
        return
    from openpai.cli.listing import listing

    rows = [(one.name, one.host, str(one.port), one.command) for one in chosen]
    output.say(listing(["TASK", "HOST", "PORT", "COMMAND"], rows, right=["PORT"]))
    output.next_step(f"pai job ssh {name} --role {chosen[0].role} --index {chosen[0].index} --connect")


def _doors(pai: Client, name: str) -> tuple[SshTask, ...]:
    try:
        return pai.ssh(name)
    except Refused as error:
        # OpenPAI's answer does not tell a job that does not run yet from one that never will.
        if error.code != "NoJobSshInfoError" or not (job := pai.job(name)).is_final:
            raise
        message = f"job {job.full_name} is over; no task of it can be reached"
        raise Refused("FinishedJobError", message, f"start it again first: pai job start {name}") from error


def _become(task: SshTask) -> None:
    """Let ssh take this process's place; host and port come from the server and are no options of ssh's."""
    sys.stdout.flush()
    try:
        os.execvp("ssh", ["ssh", "-p", str(task.port), "-l", "root", "--", task.host])  # noqa: S606, S607
    except OSError as error:
        raise Refused(
            "InvalidParametersError", f"cannot run ssh: {error}", f"run it yourself: {task.command}"
        ) from error
