"""Logs as text without control sequences for the reader's terminal.

A log is untrusted, and its control sequences could write the clipboard (OSC 52), rename the window, type answers, or
clear the screen. Only line ends, tabs and carriage returns, with which progress bars are drawn, pass. Colours do not:
one that is not reset would continue after the log, and text in the colour of its background would be invisible.
"""

from __future__ import annotations

import re
from typing import Final

from openpai.protocol.shown_text import BEGUN, HELD_MAX, SEQUENCE, shown_line
from openpai.protocol.wording import harmless

_COLOUR: Final = re.compile(r"(\x1b\[[0-9;:]{0,60}m)")


def plain(text: str) -> str:
    """Return a text without colours and moves of the cursor; other control characters are escaped."""
    parts = SEQUENCE.sub("", text).split("\r")
    return "\r".join(map(harmless, parts))


def plain_line(text: str) -> str:
    """Return what a terminal would show of one line after progress bars have rewritten it; see `plain`."""
    return shown_line(text)


def plain_stamped(line: str) -> str:
    """Return `plain_line` of a line after its time, which the line must not overwrite."""
    stamp, space, rest = line.partition(" ")
    return f"{plain_line(stamp)}{space}{plain_line(rest)}"


def coloured_line(text: str) -> str:
    """Return what a terminal would show of one line, with its colours; see `plain`."""
    shown = text.rstrip("\r").rpartition("\r")[2]
    return "".join(part if _COLOUR.fullmatch(part) else plain(part) for part in _COLOUR.split(shown))


class Plain:
    """Plain text from pieces; a sequence may begin in one piece and end in the next."""

    def __init__(self) -> None:
        self._held = ""

    def take(self, piece: str) -> str:
        """Return what can be shown so far."""
        text = self._held + piece
        begun = BEGUN.search(text, max(0, len(text) - HELD_MAX))
        self._held = begun[0] if begun else ""
        return plain(text[: len(text) - len(self._held)])

    def finish(self) -> str:
        """Return the rest at the end."""
        held, self._held = self._held, ""
        return plain(held)
