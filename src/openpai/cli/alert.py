"""`pai alert`: what wants attention."""

from __future__ import annotations

from typing import Final

from openpai.cli import output, session
from openpai.cli.lazy import group

COMMANDS: Final = {"list": ("openpai.cli.alert:list_", "List what wants attention now.")}
app = group("Alerts: what wants attention.", COMMANDS)
STYLE: Final = {"fatal": "bold red", "error": "red", "warn": "yellow", "info": "dim"}


def list_(json: output.Json = False) -> None:
    """List what wants attention now.

    Your own jobs; nodes and everybody's jobs for administrators.
    """
    with session.connect() as pai:
        found = pai.alerts()
    if json:
        output.document([one.document for one in found])
        return
    if not found:
        output.say_marked_up("[green]Nothing wants attention.[/]")
        return
    from openpai.cli.listing import listing

    rows = [
        (f"[{STYLE.get(one.severity, 'default')}]{one.severity or '-'}[/]", one.name, one.about, one.summary)
        for one in found
    ]
    headings = ["SEVERITY", "ALERT", "ABOUT", "WHAT"]
    output.say(listing(headings, rows, markup=["SEVERITY"], whole=["SEVERITY"]))
    about = found[0].about
    output.next_step(f"pai job why {about}" if "~" in about else "pai node list")
