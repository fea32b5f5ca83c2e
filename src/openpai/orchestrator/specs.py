"""Reading back what a job asked for, without reading the same text twice in a row."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from openpai.ports.store import JobRecord
from openpai.protocol.job import JobSpec
from openpai.protocol.writing import load_spec

KEPT_MAX: Final = 4096


def spec_of(record: JobRecord) -> JobSpec:
    """Return the specification of a job, without its secrets."""
    return read_spec(record.spec_text)


@lru_cache(maxsize=KEPT_MAX)
def read_spec(text: str) -> JobSpec:
    """Return the specification that a text says, without its secrets."""
    return load_spec(text, {})
