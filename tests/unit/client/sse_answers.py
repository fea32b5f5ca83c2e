"""Answers of the server to a client that follows logs."""

from __future__ import annotations

import httpx


def stream(*parts: str) -> httpx.Response:
    return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, text="".join(parts))


def log(offset: int, text: str) -> str:
    return f'id: {offset}\nevent: log\ndata: {{"stream": "stdout", "offset": {offset}, "text": "{text}"}}\n\n'
