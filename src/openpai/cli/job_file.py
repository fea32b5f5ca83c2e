"""Job files: read from disk or a pipe, and shown with their faults."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from openpai.cli.text_file import read_start
from openpai.protocol.errors import Fault
from openpai.protocol.job import MAX_JOB_BYTES
from openpai.protocol.wording import harmless_line

EXCERPT_WIDTH: Final = 110
# As YAML counts lines, which is not as `str.splitlines` does.
_BREAKS: Final = re.compile("\r\n|[\r\n\x85\u2028\u2029]")


def read(file: str) -> bytes:
    """Return the content of a file, or of standard input for `-`; raise Refused when it cannot be read.

    A file that is too long is cut off one byte above the limit, so that the check refuses it.
    """
    return read_start(Path(file), "a job file", MAX_JOB_BYTES + 1)


def excerpt(text: str, fault: Fault) -> str:
    """Return the faulty line with the line before it and a caret under the fault; empty without a line."""
    from rich.cells import cell_len

    lines = _BREAKS.split(text)
    if fault.line is None or not 0 < fault.line <= len(lines):
        return ""
    line = lines[fault.line - 1].expandtabs(1)
    start, end = _span_of(line, fault.path)
    # A file of one long line is shown from shortly before the fault.
    left = max(0, start - EXCERPT_WIDTH // 2) if end > EXCERPT_WIDTH else 0
    shown = [
        f"{number:>5} | {harmless_line(lines[number - 1].expandtabs(1)[left : left + EXCERPT_WIDTH])}"
        for number in (fault.line - 1, fault.line)
        if number
    ]
    # Wide characters take two columns, and control characters are shown as several.
    before = cell_len(harmless_line(line[left:start]))
    marked = max(1, cell_len(harmless_line(line[start : min(end, left + EXCERPT_WIDTH)])))
    return "\n".join([*shown, f"      | {' ' * before}{'^' * marked}"])


def _span_of(line: str, path: str) -> tuple[int, int]:
    """Return the span of the faulty key in a line; of the whole line if the key is not in it."""
    word = path.rpartition(".")[2]
    if word and not word.endswith("]"):
        as_key = re.search(rf"""(?<![\w.-])["']?({re.escape(word)})["']?\s*:""", line)
        found = as_key or re.search(rf"(?<![\w.-])({re.escape(word)})(?![\w.-])", line)
        if found is not None:
            return found.span(1)
    return len(line) - len(line.lstrip()), len(line.rstrip())


def describe(text: str, faults: Iterable[Fault]) -> str:
    """Return every fault with its lines."""
    return "\n\n".join("\n".join(part for part in (f.describe(), excerpt(text, f)) if part) for f in faults)
