"""Finds texts of which each match of an expression contains one, so that most of a log is passed over quickly.

RE2 looks for a plain text many times faster than for an expression with alternatives or classes. Whatever is not
plainly understood here gives no texts, and the expression is then tried on all of the log. Only expressions that RE2
has accepted may be given.
"""

from __future__ import annotations

import re
from typing import Final

LENGTH_MIN: Final = 3
"""Shorter texts are in too many lines."""
TEXTS_MAX: Final = 8
_GROUP: Final = re.compile(r"\((?:\?(?::|P?<\w+>))?(?!\?)")
_TIMES: Final = re.compile(r"\{(\d+)(?:,\d*)?\}")
_EMPTY_OR_CLASS: Final = frozenset("bBAzdDsSwWaftnrv")
_NAMED_CLASS_END: Final = ":]"


class _NotUnderstoodError(Exception):
    """The expression has something of which too little is known."""


def needed_texts(expression: str) -> tuple[str, ...]:
    """Return texts of which each match contains at least one; empty if none are known."""
    reader = _Reader(expression)
    try:
        texts = reader.alternatives()
    except _NotUnderstoodError:
        return ()
    is_useful = reader.at == len(expression) and 0 < len(texts) <= TEXTS_MAX and min(map(len, texts)) >= LENGTH_MIN
    return tuple(sorted(texts)) if is_useful else ()


class _Reader:
    """Reads an expression from left to right; each method returns the texts that its part needs."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def alternatives(self) -> frozenset[str]:
        found = [self._sequence()]
        while self._next() == "|":
            self.at += 1
            found.append(self._sequence())
        return frozenset().union(*found) if all(found) else frozenset()

    def _sequence(self) -> frozenset[str]:
        best: frozenset[str] = frozenset()
        run = ""
        while self._next() not in ("", "|", ")"):
            char, texts = self._atom()
            least, is_repeated = self._times()
            if char and least and not is_repeated:
                run += char
                continue
            # What follows a repetition does not follow the first of its characters.
            best = _better(best, run + char if least else run, texts if least else frozenset())
            run = ""
        return _better(best, run, frozenset())

    def _atom(self) -> tuple[str, frozenset[str]]:
        """Return the character that the next part stands for, if it is one, and the texts that it needs."""
        char = self._next()
        if char == "(":
            return "", self._group()
        if char == "[":
            self._skip_class()
            return "", frozenset()
        self.at += 1
        if char == "\\":
            char = self._next()
            self.at += 1
            if char.isalnum() and char not in _EMPTY_OR_CLASS:
                raise _NotUnderstoodError
            return ("" if char.isalnum() else char), frozenset()
        return ("" if char in ".^${}" else char), frozenset()

    def _group(self) -> frozenset[str]:
        begin = _GROUP.match(self._text, self.at)
        if begin is None:
            raise _NotUnderstoodError
        self.at = begin.end()
        texts = self.alternatives()
        if self._next() != ")":
            raise _NotUnderstoodError
        self.at += 1
        return texts

    def _skip_class(self) -> None:
        text, at = self._text, self.at + 1
        at += text.startswith("^", at)
        at += text.startswith("]", at)
        while not text.startswith("]", at):
            if text.startswith("[:", at):
                at = text.find(_NAMED_CLASS_END, at) + 1
            at += 2 if text.startswith("\\", at) else 1
            if at >= len(text) or text.startswith("\\Q", at):
                raise _NotUnderstoodError
        self.at = at + 1

    def _times(self) -> tuple[int, bool]:
        """Return how often the last part is there at least, and whether it may be there more than once."""
        least, is_repeated = 1, False
        while (char := self._next()) in ("*", "+", "?", "{"):
            times = _TIMES.match(self._text, self.at) if char == "{" else None
            if char == "{" and times is None:
                break
            if not (char == "?" and is_repeated):
                least = min(least, int(times[1]) if times is not None else int(char == "+"))
            is_repeated = True
            self.at = times.end() if times is not None else self.at + 1
        return least, is_repeated

    def _next(self) -> str:
        return self._text[self.at : self.at + 1]


def _better(known: frozenset[str], run: str, others: frozenset[str]) -> frozenset[str]:
    """Return the texts that are likely to be in the fewest lines: of several, the shortest one counts."""
    return max(
        (known, frozenset({run} - {""}), others), key=lambda texts: (min(map(len, texts), default=0), -len(texts))
    )
