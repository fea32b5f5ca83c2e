"""Tickets for the WebSockets of running tasks; the WebSockets themselves are in `api.shell_sockets`."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Request

from openpai.api.answers import Reply, reply
from openpai.api.context import context_of, needs
from openpai.api.job_attempts import TaskAttemptPath
from openpai.api.legacy_paths import gateway_of
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shell_sockets import EXEC, PORT
from openpai.wire.shells import ShellTicket

router = Router("tasks")
_ERRORS = "NoJobConfigError NoTaskLogError NoRunningTaskError"


@router.serves(f"POST {EXEC}", "Make a ticket to run a command in a task", _ERRORS)
async def make_exec_ticket(
    request: Request, caller: Annotated[Caller, needs("job.exec")], place: Annotated[TaskAttemptPath, Depends()]
) -> Reply[ShellTicket]:
    """Return the address of a WebSocket that runs a command in a running task; it works once, for a minute.

    Add `command=WORD` for each word, or none for a shell, and `tty=true&columns=80&rows=24` for a terminal. Programs
    that can send an Authorization header with a WebSocket need no ticket.
    """
    return await _ticket(request, caller, place)


@router.serves(f"POST {PORT}", "Make a ticket to connect to a port of a task", _ERRORS)
async def make_port_ticket(
    request: Request,
    caller: Annotated[Caller, needs("job.exec")],
    place: Annotated[TaskAttemptPath, Depends()],
    port: Annotated[int, Path(ge=1, le=65535)],
) -> Reply[ShellTicket]:
    """Return the address of a WebSocket that is connected to a TCP port of a task; it works once, for a minute."""
    return await _ticket(request, caller, place)


async def _ticket(request: Request, caller: Caller, place: TaskAttemptPath) -> Reply[ShellTicket]:
    context = context_of(request)
    _, found = await place.find(request, caller)
    await context.services.platform.check_shell(found.key)
    path: str = request.scope["path"]
    issued = context.shell_tickets.ticket(caller, path)
    uri = f"{gateway_of(request.scope)}{request.url.path}?ticket={issued.ticket}"
    return reply(ShellTicket(uri=uri, expiresAt=issued.until_ms))
