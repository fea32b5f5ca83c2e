"""The little Markdown that generated pages are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

NOTE: Final = "*This page is made from {source} by `make docs`. Change that, not this.*"


def page(title: str, source: str, *parts: str) -> str:
    """Return a whole page: its title, where it comes from, and its parts with an empty line between them."""
    return "\n\n".join([f"# {title}", NOTE.format(source=source), *(part.strip("\n") for part in parts)]) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [heads, ["---"] * len(heads), *([cell(text) for text in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cell(text: str) -> str:
    """Return text that stays in one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """Return text as code, and nothing for no text."""
    return f"`{text}`" if text else ""


def codes(texts: Iterable[str]) -> str:
    """Return several pieces of code, with commas between them."""
    return ", ".join(map(code, texts))


def block(text: str, language: str = "") -> str:
    """Return a block of code."""
    return f"```{language}\n{text}\n```"
