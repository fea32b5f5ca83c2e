"""The messages of the WebSockets of tasks: one byte for the channel, then its data.

From the client: 0 is standard input, 4 is `{"columns": N, "rows": N}`, 255 ends standard input. To the client: 1 is
standard output, 2 is standard error, and 3 comes last: `{"exitCode": N}`, or `{"code": ..., "message": ...}` if the
platform ended the session. An empty message of channel 1 keeps the connection alive.
"""

from __future__ import annotations

import json
from typing import Any, Final

from openpai.ports.shells import SIZE_MAX

STDIN: Final = 0
END: Final = 3
CLOSE: Final = 255
ALIVE: Final = b"\x01"
SUBPROTOCOL: Final = "v1.shell.openpai"
MESSAGE_MAX: Final = 1 << 20


def output(stream: int, data: bytes) -> bytes:
    """Return a message with output."""
    return bytes((stream,)) + data


def end(document: dict[str, Any]) -> bytes:
    """Return the last message."""
    return bytes((END,)) + json.dumps(document).encode()


def size_in(data: bytes) -> tuple[int, int] | None:
    """Return columns and rows of a message, None if it has no such numbers."""
    try:
        found = json.loads(data)
        columns, rows = int(found["columns"]), int(found["rows"])
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None
    return (columns, rows) if 1 <= columns <= SIZE_MAX and 1 <= rows <= SIZE_MAX else None
