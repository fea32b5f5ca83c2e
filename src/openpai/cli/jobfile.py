"""A job file on its way to the platform: read from disk or a pipe, and its faults shown where they are."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from openpai.protocol.errors import Fault, Refused, harmless

EXCERPT_WIDTH: Final = 110


def read(file: str) -> bytes:
    """Return the content of a file, or of standard input for `-`; raise Refused when it cannot be read."""
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise Refused(
            "InvalidParametersError", f"cannot read {file}: {error.strerror or error}", "give the path of a job file"
        ) from error


def excerpt(text: str, fault: Fault) -> str:
    """Return the faulty line with the line before it and a caret under what is meant; empty without a line."""
    lines = text.splitlines()
    if fault.line is None or not 0 < fault.line <= len(lines):
        return ""
    line = lines[fault.line - 1].expandtabs(1)
    word = fault.path.rpartition(".")[2].partition("[")[0]
    start = line.find(word) if word else -1
    if start < 0:
        start, word = len(line) - len(line.lstrip()), line.strip()
    # A file of one long line is shown from shortly before what is meant.
    left = max(0, start - EXCERPT_WIDTH // 2) if start + len(word) > EXCERPT_WIDTH else 0
    shown = [
        f"{number:>5} | {harmless(lines[number - 1].expandtabs(1)[left : left + EXCERPT_WIDTH])}"
        for number in (fault.line - 1, fault.line)
        if number
    ]
    marked = min(max(1, len(word)), EXCERPT_WIDTH - (start - left))
    return "\n".join([*shown, f"      | {' ' * (start - left)}{'^' * marked}"])


def told(text: str, faults: Iterable[Fault]) -> str:
    """Return every fault with the lines it is about, for a person."""
    return "\n\n".join("\n".join(part for part in (f.told(), excerpt(text, f)) if part) for f in faults)
