"""Characters that no text may hold, because not every database, file system or terminal can."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

_UNFIT: Final = re.compile("[\x00\ud800-\udfff]")


def unfit_in(text: str) -> str:
    """Return what is wrong with a text, empty if it is fine: a NUL, or half a pair of surrogates."""
    found = _UNFIT.search(text)
    if found is None:
        return ""
    return "holds a NUL character" if found[0] == "\x00" else "holds half a character (a lone surrogate)"


def unfit_texts(document: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield where a document of mappings and lists holds an unfit text or key, and what is wrong with it."""
    left: list[tuple[tuple[str | int, ...], Any]] = [((), document)]
    while left:
        path, value = left.pop()
        if isinstance(value, str) and (message := unfit_in(value)):
            yield path, message
        elif isinstance(value, dict):
            for key, part in value.items():
                if isinstance(key, str) and (message := unfit_in(key)):
                    yield path, f"{message} in one of its keys"
                else:
                    left.append(((*path, key), part))
        elif isinstance(value, list):
            left.extend(((*path, number), part) for number, part in enumerate(value))
