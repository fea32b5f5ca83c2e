"""Limits of the documents that clients store with a user or a group, which the platform never interprets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from openpai.protocol.errors import Refused

BYTES_MAX: Final = 64 * 1024
DEPTH_MAX: Final = 32


def check_extension(document: Mapping[str, Any]) -> None:
    """Raise InvalidParametersError for an extension that is too large or nested too deeply."""
    if _depth(document) > DEPTH_MAX:
        raise _invalid(f"extension: it is nested more than {DEPTH_MAX} levels deep")
    if len(json.dumps(document)) > BYTES_MAX:
        raise _invalid(f"extension: it would be larger than {BYTES_MAX // 1024} KiB")


def _invalid(message: str) -> Refused:
    return Refused("InvalidParametersError", message, "put large documents into a storage")


def _depth(value: Any) -> int:
    """Return the depth of a document, counted up to one level more than is allowed."""
    level, depth = [value], 0
    while level and depth <= DEPTH_MAX:
        inner = [list(one.values()) if isinstance(one, Mapping) else one for one in level]
        level = [child for one in inner if isinstance(one, list) for child in one]
        depth += 1
    return depth
