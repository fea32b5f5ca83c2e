"""Reading back what a job asked for, without reading the same text twice in a row."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from openpai.ports.store import JobRecord
from openpai.protocol.job import JobSpec
from openpai.protocol.writing import load_spec

KEPT_MAX: Final = 1024


def spec_of(record: JobRecord) -> JobSpec:
    """Return the specification of a job, without its secrets."""
    return _read(record.spec_text)


@lru_cache(maxsize=KEPT_MAX)
def _read(text: str) -> JobSpec:
    return load_spec(text, {})
