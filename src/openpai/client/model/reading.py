"""Reading the server's documents: what is missing or of another kind becomes nothing, never an error.

A newer server may say more and an older one less; a program that leans on a field gets an empty one then.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

Document = Mapping[str, Any]


def text(value: Any) -> str:
    """Return a value as text; nothing is the empty text."""
    return "" if value is None else str(value)


def number(value: Any) -> int | None:
    """Return a whole number, or None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def moment(value: Any) -> int | None:
    """Return a time written as in 2026-01-31T12:00:00.000Z in milliseconds since 1970, or None for anything else."""
    try:
        return round(datetime.fromisoformat(value).timestamp() * 1000)
    except (TypeError, ValueError):
        return None


def amount(value: Any) -> int:
    """Return a whole number, 0 for anything else."""
    return number(value) or 0


def real(value: Any) -> float:
    """Return a number, 0.0 for anything else."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0


def texts(value: Any) -> tuple[str, ...]:
    """Return a list of texts, empty for anything else."""
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()


def exit_phrase(spec: Any) -> str:
    """Return the phrase of a row of the exit-code table."""
    return text(spec.get("phrase")) if isinstance(spec, Mapping) else ""
