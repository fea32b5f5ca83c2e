"""`pai alert`: what needs attention."""

from __future__ import annotations

from typing import Final

from openpai.cli import output, session
from openpai.cli.lazy import group

COMMANDS: Final = {"list": ("openpai.cli.alert:list_", "List what needs attention now.")}
app = group("Alerts: what needs attention.", COMMANDS)
STYLE: Final = {"fatal": "bold red", "error": "red", "warn": "yellow", "info": "dim"}


def list_(json: output.Json = False) -> None:
    """List what needs attention now.

    Your own jobs; for administrators, nodes and the jobs of all users.
    """
    with session.connect() as pai:
        found = pai.alerts()
    if output.as_json(json, [one.document for one in found]):
        return
    if not found:
        output.say_marked_up("[green]Nothing needs attention.[/]")
        return
    rows = [
        (f"[{STYLE.get(one.severity, 'default')}]{one.severity or '-'}[/]", one.name, one.about, one.summary)
        for one in found
    ]
    headings = ["SEVERITY", "ALERT", "OBJECT", "SUMMARY"]
    output.table(headings, rows, markup=["SEVERITY"], whole=["SEVERITY"])
    about = found[0].about
    output.next_step(f"pai job why {about}" if "~" in about else "pai node list")
