"""The WebSockets of a running task: `exec` runs a command in it, `ports/N` connects to one of its ports.

Each session leaves two entries in the audit log: who began it in which task with which command, and how it ended.
What passes through it is not recorded.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

import structlog
from fastapi import FastAPI, Request
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from openpai.api.audit import via
from openpai.api.bodies import invalid
from openpai.api.client_address import address_of
from openpai.api.context import ApiContext
from openpai.api.denial import deny
from openpai.api.job_access import job_for
from openpai.api.job_attempts import TASK, TaskAttemptPath
from openpai.api.sessions import Caller
from openpai.api.shell_sessions import Session, StreamShell
from openpai.api.sockets import admitted, check_origin, chosen_subprotocol, pass_on
from openpai.ports.platform import NotLeading
from openpai.ports.queries import JobRow, TaskAttemptRow
from openpai.ports.shells import COLUMNS, ROWS, SIZE_MAX, Shell, ShellCommand
from openpai.ports.usage import AuditEntry
from openpai.protocol.errors import Broken, PaiError, Refused

EXEC: Final = f"{TASK}/{{attempt}}/exec"
PORT: Final = f"{TASK}/{{attempt}}/ports/{{port}}"
ACTION: Final = "job.exec"
_NUMBER_MAX: Final = 2**31 - 1
_WORDS_MAX: Final = 1000
_COMMAND_MAX: Final = 1000
_log = structlog.get_logger(__name__)


class Wanted(NamedTuple):
    """What a WebSocket opens in a task: how, and its description for the audit log."""

    open: Callable[[], Awaitable[Shell]]
    detail: dict[str, Any]


class Asked(NamedTuple):
    """A WebSocket of a caller who may have it, and its task."""

    websocket: WebSocket
    context: ApiContext
    caller: Caller
    row: JobRow
    found: TaskAttemptRow


def add_sockets(api: FastAPI) -> None:
    """Add the WebSockets of tasks to the API."""
    api.add_api_websocket_route(EXEC, run_command)
    api.add_api_websocket_route(PORT, connect_port)


async def run_command(websocket: WebSocket) -> None:
    """Run a command in a task: `command` once for each word, none for a shell; `tty`, `columns`, `rows` and `term`."""
    await _serve(websocket, _command)


async def connect_port(websocket: WebSocket) -> None:
    """Connect to a TCP port of a task."""
    await _serve(websocket, _port)


def _command(opened: Asked) -> Wanted:
    query = opened.websocket.query_params
    words = tuple(query.getlist("command"))
    if len(words) > _WORDS_MAX or any("\0" in word for word in words):
        raise invalid(f"a command has at most {_WORDS_MAX} words, without NUL characters")
    columns, rows = (_number(query.get(name, str(usual)), name, SIZE_MAX) for name, usual in _SIZES)
    term = query.get("term", "")
    if not term.isascii() or not term.replace("-", "").replace(".", "").replace("_", "").isalnum() or len(term) > 64:
        term = ""
    command = ShellCommand(words, query.get("tty") in ("true", "1"), columns, rows, term)
    platform, key = opened.context.services.platform, opened.found.key
    detail = {"command": " ".join(words)[:_COMMAND_MAX] or "(shell)", "terminal": command.is_terminal}
    return Wanted(lambda: platform.shell(key, command), detail)


def _port(opened: Asked) -> Wanted:
    port = _number(str(opened.websocket.path_params["port"]), "port", 65535)
    platform, key = opened.context.services.platform, opened.found.key

    async def connect() -> Shell:
        return StreamShell(await platform.connect(key, port))

    return Wanted(connect, {"port": port})


_SIZES: Final = (("columns", COLUMNS), ("rows", ROWS))


async def _serve(websocket: WebSocket, want: Callable[[Asked], Wanted]) -> None:
    context = cast("ApiContext", websocket.app.state.context)
    try:
        check_origin(websocket, context)
        try:
            await context.services.platform.require_leader()
            await _as_leader(websocket, context, want)
        except NotLeading as error:
            await pass_on(websocket, context, error)
    except WebSocketDisconnect:
        return
    except PaiError as error:
        if isinstance(error, Broken):
            _log.exception("a session in a task failed", path=websocket.scope["path"])
        if websocket.application_state is WebSocketState.CONNECTING:
            await deny(websocket, error)


async def _as_leader(websocket: WebSocket, context: ApiContext, want: Callable[[Asked], Wanted]) -> None:
    caller = await admitted(websocket, context, ACTION)
    request = cast("Request", websocket)
    place = _place(websocket)
    try:
        row, found = await place.find(request, caller)
        opened = Asked(websocket, context, caller, row, found)
        wanted = want(opened)
        await context.services.platform.check_shell(found.key)
        with context.shells.one_of(caller.user):
            shell = await wanted.open()
            try:
                await _run(opened, wanted, shell)
            finally:
                await shell.close()
    except Refused as error:
        about: dict[str, str] = getattr(request.state, "about", {})
        if error.code == "ForbiddenUserError":
            detail = {"task": f"{place.role}-{place.index}"}
            await context.services.usage.note(
                replace(_entry(websocket, context, caller, about), status=error.status, detail=detail)
            )
        raise


async def _run(opened: Asked, wanted: Wanted, shell: Shell) -> None:
    websocket, context, caller, row, found = opened
    began_ms = context.services.clock.now_ms()
    about = {"target": row.full_name, "owner": row.user}
    task = f"{found.key.task.role}-{found.key.task.index}"
    detail = {"session": secrets.token_hex(4), "task": task, "attempt": found.key.task_attempt, **wanted.detail}
    entry = _entry(websocket, context, caller, about)
    # Not a byte passes before the entry is durable.
    await context.services.usage.note(replace(entry, status=101, detail={**detail, "event": "start"}))
    await websocket.accept(chosen_subprotocol(websocket))

    async def may_go_on() -> PaiError | None:
        try:
            now = replace(await context.sessions.holder(caller.token.digest), action=ACTION)
            await job_for(cast("Request", websocket), now, row.id)
        except Refused as error:
            return error
        return None

    session = Session(websocket, shell, idle_s=context.services.settings.shell_idle_s, may_go_on=may_go_on)
    try:
        await session.run()
    finally:
        now_ms = context.services.clock.now_ms()
        end = {"event": "end", "seconds": (now_ms - began_ms) // 1000, "endedBy": session.ended_by}
        if shell.exit_code is not None:
            end["exitCode"] = shell.exit_code
        await context.services.usage.note(replace(entry, at_ms=now_ms, status=200, detail={**detail, **end}))


def _entry(websocket: WebSocket, context: ApiContext, caller: Caller, about: dict[str, str]) -> AuditEntry:
    now_ms = context.services.clock.now_ms()
    return AuditEntry(
        now_ms,
        caller.user,
        ACTION,
        about.get("target", ""),
        about.get("owner", ""),
        via=via(caller),
        address=address_of(websocket.scope),
    )


def _place(websocket: WebSocket) -> TaskAttemptPath:
    params = websocket.path_params
    numbers = {name: _number(str(params[name]), name, _NUMBER_MAX, 0) for name in ("number", "index", "attempt")}
    return TaskAttemptPath(job=str(params["job"]), role=str(params["role"]), **numbers)


def _number(text: str, name: str, most: int, least: int = 1) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and least <= int(text) <= most):
        raise invalid(f"{name}: {text[:20]!r} is not a number from {least} to {most}")
    return int(text)
