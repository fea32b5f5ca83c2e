"""What tasks wrote, as text that gives no orders to the reader's terminal.

A log is written by others, and a terminal obeys what it is sent: it may write the clipboard (OSC 52), rename its
window, answer questions as if they had been typed, or clear the screen. Only line ends, tabs and carriage returns, by
which progress bars are drawn, pass. Colours do not: one that is never ended goes on behind the log, and text in the
colour of its background is copied without being seen.
"""

from __future__ import annotations

import re
from typing import Final

from openpai.protocol.wording import harmless

HELD_MAX: Final = 64
# Of whole sequences that programs write to colour, erase and move, nothing is left: what they would hide is then read.
_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]{0,60}[ -/]{0,2}[@-~]|[(-+][0-B])")
_BEGUN: Final = re.compile(r"\x1b(?:\[[0-?]{0,60}[ -/]{0,2}|[(-+])?\Z")
_COLOUR: Final = re.compile(r"(\x1b\[[0-9;:]{0,60}m)")


def plain(text: str) -> str:
    """Return a text without colours and moves of the cursor; any other order to a terminal is spelled out."""
    parts = _SEQUENCE.sub("", text).split("\r")
    return "\r".join(map(harmless, parts))


def plain_line(text: str) -> str:
    """Return what a terminal would show of one line, which progress bars write over; see `plain`."""
    return plain(text).rstrip("\r").rpartition("\r")[2]


def plain_stamped(line: str) -> str:
    """Return what `plain_line` does of a line behind its time, over which nothing may write."""
    stamp, space, rest = line.partition(" ")
    return f"{plain_line(stamp)}{space}{plain_line(rest)}"


def coloured_line(text: str) -> str:
    """Return what a terminal would show of one line, its colours left in for who draws them; see `plain`."""
    shown = text.rstrip("\r").rpartition("\r")[2]
    return "".join(part if _COLOUR.fullmatch(part) else plain(part) for part in _COLOUR.split(shown))


class Plain:
    """Text that arrives in pieces, made plain; a sequence may begin in one piece and end in the next."""

    def __init__(self) -> None:
        self._held = ""

    def take(self, piece: str) -> str:
        """Return what can be shown by now."""
        text = self._held + piece
        begun = _BEGUN.search(text, max(0, len(text) - HELD_MAX))
        self._held = begun[0] if begun else ""
        return plain(text[: len(text) - len(self._held)])

    def finish(self) -> str:
        """Return what is left when nothing more comes."""
        held, self._held = self._held, ""
        return plain(held)
