"""`pai settings`: the settings of the server, and where each comes from."""

from __future__ import annotations

from typing import Annotated, Any

from openpai.cli import formatting, output, session
from openpai.cli.options import option


def settings(
    all_: Annotated[bool, option("--all -a", "Also settings that have their defaults.")] = False,
    json: output.Json = False,
) -> None:
    """Show the settings of the server, and where each value comes from; for administrators.

    No secret is shown. `pai admin config` explains every setting; a change of one needs a restart.
    """
    with session.connect() as pai:
        found = pai.settings()
    if output.as_json(json, found):
        return
    rows = [
        (one["name"], _value(one["value"]), one["file"] or one["source"])
        for one in found["server"]
        if all_ or one["source"] != "default"
    ]
    if rows:
        output.table(["SETTING", "VALUE", "FROM"], rows, whole=["SETTING"])
    else:
        output.say("Every setting of the server has its default.")
    output.say("Changed while the server runs:")
    live = [(one["name"], one["command"], _changed(one)) for one in found["live"]]
    output.table(["SETTING", "COMMAND", "CHANGED"], live, whole=["SETTING", "COMMAND"])
    output.next_step("pai admin config" if all_ else "pai settings --all")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _changed(one: dict[str, Any]) -> str:
    at = one["changedTime"]
    return "never" if at is None else f"{formatting.clock_time(at)} by {one['changedBy'] or 'the platform'}"
