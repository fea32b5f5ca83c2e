"""Plain tables for people: headings and rows of text, no wider than the terminal.

Without a terminal, as in a pipe, each row is one line of any width, so that `grep` and `cut` work.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from openpai.protocol.wording import harmless

_BREAKS: Final = re.compile(r"[\t\n]")


def listing(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Collection[str] = (),
    whole: Collection[str] = (),
    markup: Collection[str] = (),
) -> Table:
    """Return a table; `whole` columns are never folded, and only `markup` columns hold Rich markup."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        justify = "right" if heading in right else "left"
        table.add_column(heading, justify=justify, no_wrap=heading in whole or heading in right, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(
            *(cell if name in markup else shown(cell) or "-" for name, cell in zip(headings, row, strict=True))
        )
    return table


def facts(pairs: Iterable[tuple[str, str]]) -> Table:
    """Return a table with one fact per line; empty ones are left out."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, message in pairs:
        if message:
            table.add_row(name, shown(message))
    return table


def shown(text: str) -> str:
    """Return untrusted text as Rich markup that shows it, with control characters escaped."""
    return escape(harmless(text))


def lines(table: Table) -> Iterator[str]:
    """Yield a table as text without styles, one row per line."""
    columns = [[str(column.header), *map(_plain, column.cells)] for column in table.columns]
    if not table.show_header:
        columns = [cells[1:] for cells in columns]
    widths = [max(map(cell_len, cells), default=0) for cells in columns]
    is_right = [column.justify == "right" for column in table.columns]
    for row in zip(*columns, strict=True):
        cells = (
            " " * (width - cell_len(cell)) + cell if right else cell + " " * (width - cell_len(cell))
            for cell, width, right in zip(row, widths, is_right, strict=True)
        )
        yield "  ".join(cells).rstrip()


def _plain(cell: object) -> str:
    message = str(cell)
    # Reading markup is slow, and most cells of a long table hold none.
    return _BREAKS.sub(" ", Text.from_markup(message, emoji=False).plain if "[" in message else message)
