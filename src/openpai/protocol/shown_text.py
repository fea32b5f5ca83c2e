"""Text as a terminal would show it, without control sequences.

A log is untrusted, and its control sequences could write the clipboard (OSC 52), rename the window, type answers, or
clear the screen. Colours and moves of the cursor are removed, so that the text they would hide is visible; all other
control characters are escaped. Only carriage returns have their effect, with the erasing that goes with them: progress
bars are drawn with them, and of a bar that was drawn a thousand times over itself one state is left.
"""

from __future__ import annotations

import re
from typing import Final

from openpai.protocol.wording import harmless

SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]{0,60}[ -/]{0,2}[@-~]|[(-+][0-B])")
BEGUN: Final = re.compile(r"\x1b(?:\[[0-?]{0,60}[ -/]{0,2}|[(-+])?\Z")
HELD_MAX: Final = 64
"""A sequence that began is at most so long."""
LINE_MAX: Final = 1 << 20
"""Characters of a line that are kept until its end comes."""
_ERASE: Final = re.compile(r"\x1b\[[02]?K")


def shown_line(text: str) -> str:
    """Return what a terminal shows of one line after all carriage returns in it."""
    if "\r" not in text:
        return harmless(SEQUENCE.sub("", text)) if "\x1b" in text else harmless(text)
    line = _Line()
    line.add(text)
    return line.shown()


class _Line:
    """One line of a terminal: its characters, and where the next is written."""

    def __init__(self) -> None:
        self._cells: list[str] = []
        self._column = 0

    def __len__(self) -> int:
        return len(self._cells)

    def add(self, text: str) -> None:
        """Write a part of the line; a sequence must not be cut in two."""
        for number, part in enumerate(text.split("\r")):
            if number:
                self._column = 0
            if "\x1b" not in part:
                self._write(part)
                continue
            for count, piece in enumerate(_ERASE.split(part)):
                if count:
                    del self._cells[self._column :]
                self._write(SEQUENCE.sub("", piece))

    def shown(self) -> str:
        return harmless("".join(self._cells))

    def _write(self, text: str) -> None:
        # A list, so that a short text over a long one costs the short one only.
        self._cells[self._column : self._column + len(text)] = text
        self._column += len(text)


class ShownText:
    """A text that comes in pieces, as whole lines that a terminal would show; it holds one line at most."""

    def __init__(self) -> None:
        self._line = _Line()
        self._held = ""

    def take(self, piece: str) -> str:
        """Return the lines that a piece completes."""
        text = self._held + piece
        begun = BEGUN.search(text, max(0, len(text) - HELD_MAX))
        self._held = begun[0] if begun else ""
        first, *others = text[: len(text) - len(self._held)].split("\n")
        self._line.add(first)
        if not others:
            return self._overlong()
        *whole, rest = others
        lines = [self._line.shown(), *map(shown_line, whole), ""]
        self._line = _Line()
        self._line.add(rest)
        return "\n".join(lines) + self._overlong()

    def finish(self) -> str:
        """Return the rest at the end, which has no line end."""
        held, self._held = self._held, ""
        self._line.add(held)
        rest = self._line.shown()
        self._line = _Line()
        return rest

    def _overlong(self) -> str:
        if len(self._line) <= LINE_MAX:
            return ""
        rest = self._line.shown()
        self._line = _Line()
        return rest
