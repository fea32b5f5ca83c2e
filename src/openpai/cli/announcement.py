"""`pai announcement`: what administrators tell all users."""

from __future__ import annotations

import time
from typing import Annotated, Final

from openpai.cli import durations, formatting, output, session
from openpai.cli.lazy import group
from openpai.cli.options import argument, option

COMMANDS: Final = {
    "list": ("openpai.cli.announcement:list_", "List the announcements of this moment."),
    "add": ("openpai.cli.announcement:add", "Tell all users something, for a time."),
    "remove": ("openpai.cli.announcement:remove", "Remove an announcement."),
}
app = group("Announcements: what administrators tell all users.", COMMANDS)


def list_(
    all_: Annotated[
        bool, option("--all -a", "Also those to come and those that are over, for administrators.")
    ] = False,
    json: output.Json = False,
) -> None:
    """List the announcements of this moment."""
    with session.connect() as pai:
        found = pai.announcements(all_=all_)
    if output.is_shown(json, [one.document for one in found], found, "No announcements.", "pai announcement add TEXT"):
        return
    rows = [
        (one.id, one.level, one.state, formatting.clock_time(one.from_ms), _end(one.to_ms), " ".join(one.text.split()))
        for one in found
    ]
    output.table(["ID", "LEVEL", "STATE", "FROM", "TO", "TEXT"], rows, whole=["ID", "FROM", "TO"])


def add(
    text: Annotated[str, argument("TEXT", "What to tell.")],
    level: Annotated[str, option("--level LEVEL", "info, warning or critical.")] = "info",
    in_: Annotated[str | None, option("--in DURATION", "Show it from then on, as in 2h or 1d [default: now].")] = None,
    for_: Annotated[
        str | None, option("--for DURATION", "How long it is shown, as in 2h or 7d [default: until it is removed].")
    ] = None,
    json: output.Json = False,
) -> None:
    """Tell all users something, for a time; they see it on the first page of the portal."""
    from_ms = None if in_ is None else int((time.time() + durations.seconds(in_, "--in")) * 1000)
    start_ms = int(time.time() * 1000) if from_ms is None else from_ms
    to_ms = None if for_ is None else start_ms + int(durations.seconds(for_, "--for") * 1000)
    with session.connect() as pai:
        made = pai.announce(text, level=level, from_ms=from_ms, to_ms=to_ms)
    message = f"Announcement {made.id} is shown from {formatting.clock_time(made.from_ms)}, {_end(made.to_ms)}."
    output.done(json, made.document, message, f"pai announcement remove {made.id}")


def remove(
    id_: Annotated[str, argument("ID", "As `pai announcement list` shows it.")],
    json: output.Json = False,
) -> None:
    """Remove an announcement."""
    with session.connect() as pai:
        pai.remove_announcement(id_)
    output.done(json, {"removed": id_}, f"Announcement {id_} is removed.", "pai announcement list --all")


def _end(to_ms: int | None) -> str:
    return "until removed" if to_ms is None else f"to {formatting.clock_time(to_ms)}"
