"""Plain tables for people: headings, rows of text, and nothing wider than 80 columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich.markup import escape
from rich.table import Table


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
            *(cell if name in markup else escape(cell) or "-" for name, cell in zip(headings, row, strict=True))
        )
    return table


def facts(pairs: Iterable[tuple[str, str]]) -> Table:
    """Return what there is to say about one thing, a fact a line; empty ones are left out."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, told in pairs:
        if told:
            table.add_row(name, escape(told))
    return table
