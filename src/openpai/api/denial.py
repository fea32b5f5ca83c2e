"""Refuses WebSockets with an ordinary answer, which has the reason; a browser sees only that it failed."""

from __future__ import annotations

from starlette.responses import Response
from starlette.websockets import WebSocket

from openpai.api.answers import refusal
from openpai.api.rate_limits import TooManyRequests
from openpai.protocol.errors import PaiError


async def deny(websocket: WebSocket, error: PaiError) -> None:
    """Refuse a WebSocket that was not accepted yet, with the error in OpenPAI's shape."""
    await deny_with(websocket, refusal(error, error.headers() if isinstance(error, TooManyRequests) else None))


async def deny_with(websocket: WebSocket, answer: Response) -> None:
    """Refuse a WebSocket that was not accepted yet."""
    if "websocket.http.response" in websocket.scope.get("extensions", {}):
        await websocket.send_denial_response(answer)
    else:
        await websocket.close(1008)
