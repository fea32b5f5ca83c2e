"""What the API's description holds for each operation beyond its parameters.

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
    """The model of the document that is answered; None where that is no JSON, or nothing."""
    errors: str = ""
    """Names of the errors it may end with, besides those that follow from what it takes."""
    media: Mapping[str, Any] = field(default_factory=dict)
    """Other content types it may answer with, each with an example."""
    request: Any = None
    """A body that could be sent, where the fields' own examples do not make one."""
    statuses: Mapping[str, str] = field(default_factory=dict)
    """Other statuses it may answer with, each with what that means."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of its answer, each with what that means."""
