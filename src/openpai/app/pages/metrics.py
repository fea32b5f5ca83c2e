"""The page of the names of metrics, from their catalogue."""

from __future__ import annotations

from typing import Final

from openpai.app.pages.markdown import code, page, table
from openpai.series.catalogue import METRICS

_INTRO: Final = """\
What is measured, under the names that `/metrics`, remote write, `pai metrics`, REST and alert rules have in common.
`/metrics` and remote write publish a counter as its total; everywhere else its value is the rate per second.
[Metrics](metrics.md) says how they are kept, scraped and shown."""


def metrics() -> str:
    """Return the page."""
    rows = [[code(one.name), one.kind, one.unit, one.help] for one in METRICS.values()]
    return page(
        "Names of metrics", "the catalogue of metrics", _INTRO, table(("Name", "Kind", "Unit", "Meaning"), rows)
    )
