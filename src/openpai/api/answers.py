"""How answers are encoded: compact JSON, plain text, errors in OpenPAI's shape, and CSV without formulas."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from openpai.protocol.errors import PaiError, Unavailable
from openpai.wire import answers as wire

T = TypeVar("T")
Document_co = TypeVar("Document_co", covariant=True)

Encoded = bytes | memoryview
"""JSON, or a part of it."""
JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
YAML: Final = "text/yaml; charset=utf-8"
CSV: Final = "text/csv; charset=utf-8"
CSV_HEADERS: Final = {"Content-Disposition": "of CSV: the name of the file"}
# Spreadsheets run a cell that begins like this as a formula; an apostrophe makes it text.
_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
_ROWS_AT_ONCE: Final = 250
_LONG_BYTES: Final = 64 << 10
"""Blocks of memory that are larger get new pages from the system each time."""
_SOON: Final = {"Retry-After": "1"}

_encode: Final = msgspec.json.Encoder().encode
_encode_anything: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Reply(Response, Generic[Document_co]):
    """An answer whose body is a document of this type, as JSON."""

    media_type = JSON


class LongReply(Reply[Document_co]):
    """An answer whose parts are sent one after the other: to copy megabytes together takes longer than to send them."""

    def __init__(self, parts: Iterable[Encoded]) -> None:
        self._parts = list(parts)
        size = sum(map(len, self._parts))
        if size < _LONG_BYTES:
            self._parts = [b"".join(self._parts)]
        super().__init__(headers={"Content-Length": str(size)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the head and the parts."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for part in self._parts[:-1]:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": self._parts[-1]})


Accepted = Reply[wire.Message]
Done = Reply[wire.StatusMessage]


def encoded(document: Any) -> bytes:
    """Return a document as JSON."""
    try:
        return _encode(document)
    except (TypeError, ValueError):
        # A lone surrogate, which JSON may name but UTF-8 cannot hold, becomes a question mark instead of an error.
        return _encode_anything(document).encode("utf-8", "replace")


def reply(document: T, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply[T]:
    """Return a JSON answer."""
    return Reply(encoded(document), status, headers)


def text(content: str | bytes, media_type: str = TEXT, headers: Mapping[str, str] | None = None) -> Response:
    """Return a plain answer."""
    return Response(content, 200, headers, media_type)


def accepted(message: str, status: int = 200) -> Accepted:
    """Return the answer to a request that succeeded and has no document to show."""
    return reply({"message": message}, status)


def done(message: str, status: int = 200) -> Done:
    """Return the same with the HTTP status in the document, as OpenPAI does for jobs and virtual clusters."""
    return reply({"status": status, "message": message}, status)


def refusal(error: PaiError, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error in OpenPAI's shape; a temporary one says when to retry."""
    if headers is None and isinstance(error, Unavailable):
        headers = _SOON
    return reply(error.as_dict(), error.status, headers)


def parts_with(document: Mapping[str, Any], key: str, value: Iterable[Encoded]) -> list[Encoded]:
    """Return the parts of a document as JSON with one more key, whose value is parts of JSON already."""
    return [b"%b,%b:" % (encoded(document)[:-1], encoded(key)), *value, b"}"]


async def encoded_list(rows: Sequence[T], shape: Callable[[T], Any]) -> bytes:
    """Return a long list as JSON, each row in its shape, yielding to other requests in between.

    A row whose shape is None is left out.
    """
    return b"".join(await parts_of_list(rows, shape))


async def parts_of_list(rows: Sequence[T], shape: Callable[[T], Any]) -> list[Encoded]:
    """Return the parts of what `encoded_list` returns: a list of megabytes takes milliseconds to copy."""
    parts: list[Encoded] = []
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        shaped = [found for row in rows[start : start + _ROWS_AT_ONCE] if (found := shape(row)) is not None]
        if shaped:
            parts += (b"," if parts else b"[", memoryview(encoded(shaped))[1:-1])
        await asyncio.sleep(0)
    return [*(parts or (b"[",)), b"]"]


def csv_of(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as CSV, with line ends as RFC 4180 requires."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\r\n")
    writer.writerow(heads)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return written.getvalue()


def wants_csv(format_: str | None, accept: str | None) -> bool:
    """Return whether a request asks for CSV, by a parameter or else by its Accept header."""
    return format_ == "csv" if format_ else "text/csv" in (accept or "").lower()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return "" if value is None else value
    return f"'{value}" if value.startswith(_FORMULAS) else value
