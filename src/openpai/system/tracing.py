"""Spans of what the server does, for whoever collects traces. Without a collector a span is an empty context.

Which library makes them is decided above: `app.tracing` installs a tracer of OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

Value = str | int | float | bool


class Span(Protocol):
    """A span that has begun."""

    def name(self, name: str) -> None:
        """Replace the name of the span."""

    def note(self, **attributes: Value) -> None:
        """Add attributes."""


class Tracer(Protocol):
    """Makes spans."""

    def span(
        self, name: str, headers: Mapping[str, str] | None, attributes: Mapping[str, Value]
    ) -> AbstractContextManager[Span]:
        """Return a span below the current one, or below that of a request with these headers."""

    def headers(self) -> Mapping[str, str]:
        """Return the headers that continue the trace of the current span on another server."""


class _Nothing:
    def name(self, name: str) -> None: ...

    def note(self, **attributes: Value) -> None: ...


NO_SPAN: Final[AbstractContextManager[Span]] = nullcontext(_Nothing())
_tracers: Final[list[Tracer]] = []


def install(tracer: Tracer | None) -> None:
    """Use a tracer from now on; None for none."""
    _tracers[:] = [] if tracer is None else [tracer]


def span(name: str, headers: Any = None, **attributes: Value) -> AbstractContextManager[Span]:
    """Return a span, to be used in a `with`; `headers` are pairs of bytes, as ASGI has them."""
    if not _tracers:
        return NO_SPAN
    known = {key.decode("latin-1"): value.decode("latin-1") for key, value in headers} if headers else None
    return _tracers[0].span(name, known, attributes)


def continued() -> Mapping[str, str]:
    """Return the headers with which a request to another server continues the current trace."""
    return _tracers[0].headers() if _tracers else {}
