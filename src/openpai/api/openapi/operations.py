"""The entries of the API's description for each operation, besides its parameters.

The answers are types of `openpai.wire`. Shapes make them, mypy checks that, and the tests validate every answer against
its type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

BINARY: Final = {"type": "string", "format": "binary"}


@dataclass(frozen=True, slots=True)
class Operation:
    """The name, summary, answer and errors of one operation; FastAPI reads its parameters from the route function."""

    id: str
    summary: str
    answer: Any = None
    """The type of the JSON document in the answer; None if there is none."""
    errors: str = ""
    """Names of the errors it may return, besides those that follow from its parameters and permission."""
    media: Mapping[str, Any] = field(default_factory=dict)
    """Other content types of the answer, each with an example."""
    request: Any = None
    """An example of a body, if the examples of its fields do not make one."""
    statuses: Mapping[str, str] = field(default_factory=dict)
    """Other statuses, each with its meaning."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of the answer, each with its meaning."""
