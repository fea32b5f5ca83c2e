"""The exit-code table: what each way of ending means, who caused it, and what to do about it.

Every page, answer and retry decision about a failure uses a row of this table. Codes and phrases are OpenPAI's, so that
existing scripts keep working; the sentences are our own and apply to every backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from openpai.protocol.exit_code_rows import ROWS, ExitSpec
from openpai.protocol.log_rules import LOG_RULES, LogRule

__all__ = ["EXIT_SPECS", "LOG_RULES", "UNLISTED_NEGATIVE", "UNLISTED_POSITIVE", "ExitSpec", "LogRule", "spec_for"]

UNLISTED_POSITIVE: Final = 256
UNLISTED_NEGATIVE: Final = -8000
EXIT_SPECS: Final[Mapping[int, ExitSpec]] = MappingProxyType({row.code: row for row in ROWS})


def spec_for(code: int) -> ExitSpec:
    """Return the row of a code; an unlisted code gets the row for unlisted codes, with its own number."""
    spec = EXIT_SPECS.get(code)
    if spec is not None:
        return spec
    return EXIT_SPECS[UNLISTED_POSITIVE if code > 0 else UNLISTED_NEGATIVE]._replace(code=code)
