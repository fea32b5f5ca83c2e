"""Text files that users name: devices, endless files and binary files are refused."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final

from openpai.protocol.errors import Refused

BYTES_MAX: Final = 512 << 20


def read_text(file: Path, what: str, *, code: str = "InvalidParametersError", encoding: str = "utf-8") -> str:
    """Return a file's text; raise Refused for a file that cannot be read, is a device, is too large or is not text.

    `what` follows `name` in messages, as in `a CSV file`.
    """
    advice = f"name {what}"
    try:
        # A device may never end, and a directory has no text. A pipe is what a shell gives for `<(command)`.
        mode = file.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            kind = "a directory" if stat.S_ISDIR(mode) else "a device or a socket"
            raise Refused(code, f"{file} is {kind}, not {what}", advice)
        with file.open("rb") as opened:
            content = opened.read(BYTES_MAX + 1)
        if len(content) > BYTES_MAX:
            raise Refused(code, f"{file} is larger than {BYTES_MAX >> 20} MiB", advice)
        return content.decode(encoding)
    except UnicodeError as error:
        raise Refused(code, f"{str(file)!r} is not UTF-8 text", advice) from error
    except (OSError, ValueError) as error:
        message = getattr(error, "strerror", None) or error
        raise Refused(code, f"{str(file)!r} cannot be read: {message}", advice) from error
