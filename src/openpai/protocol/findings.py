"""Findings about places in a job file: faults and warnings, for which nothing of the schema is needed."""

from __future__ import annotations

from typing import Final, NamedTuple

from openpai.protocol.parsing import Path

FAULTS_MAX: Final = 100
REPLACED_IN: Final = "commands, a registry's credentials and plugins"


class Finding(NamedTuple):
    """A fault or a warning about the place `path`."""

    path: Path
    message: str
    allowed: str = ""
    suggestion: str = ""
