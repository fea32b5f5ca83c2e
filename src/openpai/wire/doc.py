"""The common type of documents, and the descriptions of their fields.

Nothing here imports Pydantic, which calls the hooks below when the server writes its OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

# Pydantic reads this one only before Python 3.12.
from typing_extensions import TypedDict

_ABSENT: Final = object()
T = TypeVar("T")


class Doc:
    """Describes the annotated type in JSON Schema; an outer `Doc` goes before the one inside it."""

    def __init__(self, description: str = "", *, example: Any = _ABSENT, minimum: int | None = None) -> None:
        self.description = description
        self._keywords: dict[str, Any] = {}
        if description:
            self._keywords["description"] = description
        if example is not _ABSENT:
            self._keywords["examples"] = [example]
        if minimum is not None:
            self._keywords["minimum"] = minimum

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Callable[[Any], dict[str, Any]]) -> Any:
        """Return the JSON Schema of the annotated type with this description."""
        return {**handler(core_schema), **self._keywords}


def open_ended(document: type[T]) -> type[T]:
    """Let a document have more keys than its type names."""
    document.__pydantic_config__ = {"extra": "allow"}  # type: ignore[attr-defined]
    return document


def _closed(document: type[T]) -> type[T]:
    document.__pydantic_config__ = {"extra": "forbid"}  # type: ignore[attr-defined]
    return document


@_closed
class Document(TypedDict):
    """A JSON object with exactly the keys that its type names."""
