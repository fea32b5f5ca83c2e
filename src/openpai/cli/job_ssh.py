"""`pai job ssh`: open a shell in a running task, or show how SSH clients reach it.

They reach it through the gateway of the platform, or through the SSH server that the task runs itself.
"""

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
    from openpai.client.model import SshGatewayTask, SshTask


def ssh(
    name: Name,
    role: Annotated[str | None, option("--role -r ROLE", "Task role.")] = None,
    index: Annotated[int | None, option("--index -i I", "Task of the role.", min=0)] = None,
    connect: Annotated[bool, option("--connect -c", "Run ssh, instead of showing the command.")] = False,
    show: Annotated[bool, option("--show", "Show the command of the SSH gateway.")] = False,
    config: Annotated[bool, option("--config", "Print entries for ~/.ssh/config.")] = False,
    json: output.Json = False,
) -> int:
    """Open a shell in a running task, whatever its image.

    If a role has a port labelled `ssh`, its tasks are expected to run an SSH server there: then this shows how to
    reach them, and --connect runs ssh. If the platform has an SSH gateway, --show has the command for any SSH client,
    and --config the entries for scp, rsync and VS Code; add your key first, with `pai ssh-key add`.
    """
    with session.connect() as pai:
        if show or config or connect or json or not sys.stdin.isatty():
            through = [one for one in _through(pai, name) if role in (None, one.role) and index in (None, one.index)]
            if through:
                return _gateway(name, through, connect=connect, config=config, json=json)
            if show or config:
                message = "this platform has no SSH gateway, or no such task runs"
                raise Refused("NoJobSshInfoError", message, f"pai job exec {name} needs none")
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
        _run_ssh("root", chosen[0].host, chosen[0].port, chosen[0].command)
    if output.as_json(json, [one.document for one in chosen]):
        return Exit.OK
    rows = [(one.name, one.host, str(one.port), one.command) for one in chosen]
    output.table(["TASK", "HOST", "PORT", "COMMAND"], rows, right=["PORT"])
    output.next_step(f"pai job ssh {name} --role {chosen[0].role} --index {chosen[0].index} --connect")
    return Exit.OK


def _through(pai: Client, name: str) -> tuple[SshGatewayTask, ...]:
    try:
        return pai.ssh_gateway(name)
    except Refused as error:
        if error.code != "NoJobSshInfoError":
            raise
        return ()


def _gateway(name: str, tasks: list[SshGatewayTask], *, connect: bool, config: bool, json: bool) -> int:
    """Show how SSH clients reach tasks through the gateway, or connect to the first."""
    if connect:
        _run_ssh(tasks[0].user, tasks[0].host, tasks[0].port, tasks[0].command)
    if output.as_json(json, [one.document for one in tasks]):
        return Exit.OK
    if config:
        sys.stdout.write("\n".join(_entry(name, one) for one in tasks))
        host = f"[{tasks[0].host}]:{tasks[0].port}"
        output.aside(f"Put this into ~/.ssh/config. The host key, for ~/.ssh/known_hosts: {host} {tasks[0].host_key}")
        return Exit.OK
    output.table(["TASK", "COMMAND"], [(one.name, one.command) for one in tasks], whole=["COMMAND"])
    output.next_step(f"pai job ssh {name} --config", "pai ssh-key list")
    return Exit.OK


def _entry(name: str, task: SshGatewayTask) -> str:
    alias = f"{name.replace('~', '.')}.{task.role}.{task.index}"
    return f"Host {alias}\n    HostName {task.host}\n    Port {task.port}\n    User {task.user}\n"


def _reachable(pai: Client, name: str) -> tuple[SshTask, ...]:
    try:
        return pai.ssh(name)
    except Refused as error:
        # OpenPAI's answer is the same for a job that does not run yet and for one that has ended.
        if error.code != "NoJobSshInfoError" or not (job := pai.job(name)).is_final:
            raise
        message = f"job {job.full_name} is over; its tasks cannot be reached"
        raise Refused("FinishedJobError", message, f"start it again first: pai job start {name}") from error


def _run_ssh(user: str, host: str, port: int, command: str) -> None:
    """Replace this process by ssh; `--` keeps the server's host from being read as an option."""
    sys.stdout.flush()
    try:
        os.execvp("ssh", ["ssh", "-p", str(port), "-l", user, "--", host])  # noqa: S606, S607
    except OSError as error:
        raise InvalidParameters(f"cannot run ssh: {error}", f"run it yourself: {command}") from error
