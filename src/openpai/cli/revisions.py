"""What the commands that edit exit specs and alert rules share: editor, files with a revision, history, reverts."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from openpai.cli import output
from openpai.cli.formatting import clock_time
from openpai.cli.options import option
from openpai.protocol.errors import InvalidParameters, Refused

if TYPE_CHECKING:
    from openpai.client.model import Revised, Revision

Reason = Annotated[str, option("--reason TEXT", "Kept in the history.")]
Kind = TypeVar("Kind", bound="Revision")


def heading(name: str, found: Revised, origin: str, newer: str) -> str:
    """Return the first line of a printed text; `revision_in` finds the revision there."""
    by = f", by {found.changed_by} at {clock_time(found.changed_at_ms)}" if found.changed_by else ""
    changed = by + (f"; {newer}" if found.is_outdated else "") if origin != "bundled" else ""
    return f"# {name}, revision {found.revision}: {origin}{changed}\n"


def revision_in(text: str, name: str) -> int | None:
    """Return the revision in the first line of a text, as `heading` writes it; None if the line is not there."""
    found = re.match(rf"# {re.escape(name)}, revision ([0-9]{{1,9}}):", text)
    return int(found[1]) if found else None


def edited(text: str, what: str) -> str:
    """Return what a person makes of a text in an editor; raise InvalidParameters if nothing was changed."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor or not sys.stdin.isatty():
        raise InvalidParameters("there is no editor to open", "set $EDITOR, or give --file FILE")
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / f"{what.rpartition(' ')[2][:64]}.yaml"
        file.write_text(text, "utf-8")
        # The editor is the caller's own.
        if subprocess.run([*shlex.split(editor), str(file)], check=False).returncode:  # noqa: S603
            raise InvalidParameters(f"{editor} ended with an error", "nothing was changed")
        found = file.read_text("utf-8")
    if found == text:
        raise InvalidParameters(f"{what} was not changed in the editor", "nothing was saved")
    return found


def kept(name: str, text: str) -> str:
    """Write a text that could not be saved to a file that stays; return its path."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix=f"{name[:64]}-", suffix=".yaml", delete=False
    ) as file:
        file.write(text)
    return file.name


def print_history(found: Sequence[Revision], noun: str, name: str, commands: str, json: bool, list_: str) -> None:
    """Print revisions; `commands` begins the commands of the noun, `list_` is the one that lists what there is."""
    empty = f"{noun.capitalize()} {name} was never changed." if name else f"No {noun} was ever changed."
    if output.is_shown(json, [one.document for one in found], found, empty, list_):
        return
    rows = [(str(one.revision), clock_time(one.at_ms), one.user, one.name, one.action, one.reason) for one in found]
    headings = ("REVISION", "TIME", "USER", "NAME", "CHANGE", "REASON")
    output.table(headings, rows, right=("REVISION",), whole=("REVISION", "TIME", "CHANGE"))
    output.next_step(f"{commands} revert {found[0].name} --to {found[0].revision}")


def revert(
    name: str,
    to: int | None,
    reason: str,
    *,
    noun: str,
    commands: str,
    not_found: str,
    history: Callable[[str], Sequence[Kind]],
    back: Callable[[str, str], Any],
    again: Callable[[Kind, str], Any],
) -> bool:
    """Return to the bundled one (`back`), or to the content of a revision (`again`); return whether it was `again`."""
    if to is None:
        back(name, reason)
        return False
    found = next((one for one in history(name) if one.revision == to), None)
    if found is None:
        known = f"`{commands} history {name}` shows its revisions"
        raise Refused(not_found, f"{noun} {name!r} has no revision {to}", known)
    why = reason or f"back to revision {to}"
    if found.action == "reverted":
        back(name, why)
        return False
    again(found, why)
    return True
