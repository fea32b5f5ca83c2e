"""Tables for spreadsheets: CSV in which no cell can be taken for a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any, Final

CSV: Final = "text/csv; charset=utf-8"
CSV_HEADERS: Final = {"Content-Disposition": "of CSV: the name of the file"}
# Spreadsheets run a cell that begins like this as a formula; an apostrophe makes it text.
_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_of(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as CSV, with line ends as RFC 4180 requires."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\r\n")
    writer.writerow(heads)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return written.getvalue()


def wants_csv(format_: str | None, accept: str | None) -> bool:
    """Return whether a request asks for CSV, by a parameter or else by its Accept header."""
    return format_ == "csv" if format_ else "text/csv" in (accept or "").lower()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return "" if value is None else value
    return f"'{value}" if value.startswith(_FORMULAS) else value
