"""Files that users name, `-` for standard input: devices, endless files and binary files are refused."""

from __future__ import annotations

import stat
import sys
from pathlib import Path
from typing import Final

from openpai.protocol.errors import Refused

BYTES_MAX: Final = 512 << 20
STANDARD_INPUT: Final = Path("-")
INVALID: Final = "InvalidParametersError"


def read_start(file: Path, what: str, most: int, *, code: str = INVALID) -> bytes:
    """Return the first `most` bytes of a file or pipe; raise Refused for one that cannot be read, or a device.

    `what` follows `name` in messages, as in `a CSV file`.
    """
    if file == STANDARD_INPUT:
        return sys.stdin.buffer.read(most)
    try:
        # A device may never end, and a directory has no text. A pipe is what a shell gives for `<(command)`.
        mode = file.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            kind = "a directory" if stat.S_ISDIR(mode) else "a device or a socket"
            raise Refused(code, f"{file} is {kind}, not {what}", f"name {what}")
        with file.open("rb") as opened:
            return opened.read(most)
    except (OSError, ValueError) as error:
        message = getattr(error, "strerror", None) or error
        raise Refused(code, f"{str(file)!r} cannot be read: {message}", f"name {what}") from error


def read_text(file: Path, what: str, *, most: int = BYTES_MAX, code: str = INVALID, encoding: str = "utf-8") -> str:
    """Return a file's text; raise Refused also for a file that is too large, or is not text."""
    content = read_start(file, what, most + 1, code=code)
    if len(content) > most:
        raise Refused(code, f"{file} is larger than {most >> 20} MiB", f"name {what}")
    try:
        return content.decode(encoding)
    except UnicodeError as error:
        raise Refused(code, f"{str(file)!r} is not UTF-8 text", f"name {what}") from error
