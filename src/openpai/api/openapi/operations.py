"""How the API tells what it answers: models of documents, and for each operation a name, a summary and its errors.

The models describe answers and never make them: shapes do that, quickly, and the tests hold every answer of theirs
against the model here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

BINARY: Final = {"type": "string", "format": "binary"}


@dataclass(frozen=True, slots=True)
class Operation:
    """What is told of one operation beyond its parameters, which its function tells."""

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
