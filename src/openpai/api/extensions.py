"""How much clients may keep with a user or a group: documents of their own that the platform never looks into."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from openpai.api.bodies import invalid

BYTES_MAX: Final = 64 * 1024
DEPTH_MAX: Final = 32


def check_extension(document: Mapping[str, Any]) -> None:
    """Raise InvalidParametersError for an extension that is too large or nested too deep."""
    if _depth(document) > DEPTH_MAX:
        raise invalid(f"extension: it is nested more than {DEPTH_MAX} levels deep")
    if len(json.dumps(document)) > BYTES_MAX:
        raise invalid(f"extension: it would be larger than {BYTES_MAX // 1024} KiB")


def _depth(value: Any) -> int:
    """Return how deep a document is nested, as far as it matters."""
    level, depth = [value], 0
    while level and depth <= DEPTH_MAX:
        inner = [list(one.values()) if isinstance(one, Mapping) else one for one in level]
        level = [child for one in inner if isinstance(one, list) for child in one]
        depth += 1
    return depth
