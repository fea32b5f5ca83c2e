"""WebSockets: which may be opened, and how one is passed on to the server that leads.

A browser sends the Origin of the page that opens one, and a page of any other origin is refused, whatever else it
sends. Cookies are never read here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from openpai.access.deciding import at_door
from openpai.api.answers import JSON
from openpai.api.client_address import FORWARDED, address_of, sealed_address
from openpai.api.context import ApiContext
from openpai.api.denial import deny_with
from openpai.api.sessions import Caller
from openpai.api.shell_frames import MESSAGE_MAX, SUBPROTOCOL
from openpai.ports.platform import NotLeading
from openpai.protocol.errors import Refused, Unavailable
from openpai.system.supervision import until_first

_OPEN_S: Final = 10.0
_PORTS: Final = {"http": "80", "https": "443"}
_DENIAL_MAX: Final = 64 * 1024


async def admitted(websocket: WebSocket, context: ApiContext, action: str) -> Caller:
    """Return who opens a WebSocket, if they may do the action to anything; raise Refused otherwise."""
    ticket = websocket.query_params.get("ticket")
    if ticket is None or "authorization" in websocket.headers:
        caller = await context.sessions.caller(websocket.headers.get("authorization"))
    else:
        caller = await context.shell_tickets.caller(ticket, websocket.scope["path"])
    at_door(caller.principal, action)
    return replace(caller, action=action)


def check_origin(websocket: WebSocket, context: ApiContext) -> None:
    """Raise ForbiddenUserError for a page that is not one of this platform's."""
    origin = websocket.headers.get("origin")
    if origin is None:
        return
    sign_on = context.services.sign_on
    ours = {each.rstrip("/").lower() for each in (sign_on.public_url, *sign_on.origins)} if sign_on else set()
    if origin.lower() in ours or _host(origin) == _with_port(websocket.headers.get("host", ""), origin):
        return
    message = f"pages of {origin[:200]} may not open a session in a task"
    raise Refused("ForbiddenUserError", message, "open it from the portal, or with the command line")


def _host(origin: str) -> str:
    return _with_port(urlsplit(origin).netloc, origin) if "://" in origin else ""


def _with_port(host: str, origin: str) -> str:
    """Return a host in lower case with its port, that of the scheme if it has none."""
    host = host.lower()
    has_port = ":" in host.rpartition("]")[2]
    return host if has_port or not host else f"{host}:{_PORTS.get(origin.partition('://')[0], '')}"


async def pass_on(websocket: WebSocket, context: ApiContext, error: NotLeading) -> None:
    """Connect a WebSocket to the server that leads; raise Unavailable when there is none."""
    if not error.url or FORWARDED in websocket.headers:
        raise Unavailable("no server leads at the moment", "ask again in a few seconds")
    query = websocket.scope["query_string"].decode("latin-1")
    path = websocket.scope.get("raw_path", websocket.scope["path"].encode()).decode("latin-1").partition("?")[0]
    url = f"ws{error.url.removeprefix('http')}{path}{'?' + query if query else ''}"
    headers = [(FORWARDED, sealed_address(context.services.sealer, address_of(websocket.scope)))]
    if (authorization := websocket.headers.get("authorization")) is not None:
        headers.append(("Authorization", authorization))
    try:
        leader = await connect(
            url, additional_headers=headers, max_size=MESSAGE_MAX, compression=None, proxy=None,
            open_timeout=_OPEN_S, ping_interval=None, max_queue=4,
        )  # fmt: skip
    except InvalidStatus as refused:
        answer = refused.response
        body = bytes((answer.body or b"")[:_DENIAL_MAX])
        await deny_with(websocket, Response(body, answer.status_code, media_type=JSON))
        return
    except (OSError, TimeoutError, WebSocketException) as gone:
        raise Unavailable("the server that leads does not answer", "ask again in a few seconds") from gone
    async with leader:
        await websocket.accept(chosen_subprotocol(websocket))
        await until_first(_to_leader(websocket, leader), _from_leader(websocket, leader))


def chosen_subprotocol(websocket: WebSocket) -> str | None:
    """Return our subprotocol if the client offers it: a browser closes the connection if it gets another one."""
    return SUBPROTOCOL if SUBPROTOCOL in websocket.scope.get("subprotocols", ()) else None


async def _to_leader(websocket: WebSocket, leader: ClientConnection) -> None:
    try:
        while True:
            await leader.send(await websocket.receive_bytes())
    except (WebSocketDisconnect, WebSocketException):
        return


async def _from_leader(websocket: WebSocket, leader: ClientConnection) -> None:
    try:
        async for message in leader:
            await websocket.send_bytes(message if isinstance(message, bytes) else message.encode())
        await websocket.close(1000)
    except (WebSocketDisconnect, WebSocketException, RuntimeError):
        return
