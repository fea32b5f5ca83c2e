"""`pai user import`: the users in a CSV file, all checked before the first is added."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from openpai.cli import output, session
from openpai.cli.exits import Exit
from openpai.cli.formatting import plural
from openpai.cli.options import argument, option
from openpai.cli.text_file import read_text
from openpai.protocol.errors import Fault, InvalidParameters, PaiError, Refused

if TYPE_CHECKING:
    from openpai.client import Client

COLUMNS: Final = ("username", "password", "email", "admin", "viewer", "virtual cluster", "groups")
_NAME: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,126}[A-Za-z0-9_-])?")
_EMAIL: Final = re.compile(r"([^\x00-\x20@]+@[^\x00-\x20@]+)?")
_YES: Final = frozenset({"true", "yes", "1"})
_NO: Final = frozenset({"", "false", "no", "0"})
_PASSWORD_MIN: Final = 6


@dataclass(frozen=True, slots=True)
class Row:
    """A user to add."""

    line: int
    name: str
    password: str = field(repr=False)
    email: str
    is_admin: bool
    is_viewer: bool
    virtual_clusters: tuple[str, ...]
    groups: tuple[str, ...]


def import_(
    file: Annotated[Path, argument("FILE", f"CSV file with a heading: {', '.join(COLUMNS)}.")],
    dry_run: Annotated[bool, option("--dry-run", "Check the file only.")] = False,
    skip_existing: Annotated[bool, option("--skip-existing", "Skip users that exist.")] = False,
    json: output.Json = False,
) -> int:
    """Add the users in a CSV file.

    Only username and password are required; several virtual clusters or groups are separated by spaces. No user is
    added unless the whole file is valid. Keep the file secret: it holds passwords.
    """
    rows = read(read_text(file, "a CSV file in UTF-8", encoding="utf-8-sig"))
    done: list[dict[str, Any]] = []
    with session.connect() as pai:
        if faults := list(_unknown(pai, rows)):
            raise _refused(faults)
        there = {user.name for user in pai.users()} if skip_existing else set()
        for row in () if dry_run else rows:
            try:
                pai.add_user(
                    row.name,
                    row.password,
                    email=row.email,
                    is_admin=row.is_admin,
                    is_viewer=row.is_viewer,
                    virtual_clusters=row.virtual_clusters,
                    groups=row.groups,
                )
                done.append({"username": row.name, "line": row.line, "result": "added"})
            except Refused as error:
                # The server also refuses names that only look like another; such a user does not exist yet.
                is_skipped = row.name in there and error.code == "ConflictUserError"
                result = {"result": "skipped"} if is_skipped else {"result": "refused", **error.as_dict()}
                done.append({"username": row.name, "line": row.line, **result})
    if json:
        output.document({"checked": len(rows), "users": done})
    else:
        _report(rows, done, dry_run)
    return Exit.REFUSED if any(one["result"] == "refused" for one in done) else Exit.OK


def _unknown(pai: Client, rows: tuple[Row, ...]) -> Iterator[Fault]:
    """Yield the granted groups and virtual clusters that do not exist."""
    groups = {group.name for group in pai.groups()} if any(row.groups for row in rows) else set()
    clusters = {vc.name for vc in pai.virtual_clusters()} if any(row.virtual_clusters for row in rows) else set()
    for row in rows:
        for column, named, known in (
            ("virtual cluster", row.virtual_clusters, clusters),
            ("groups", row.groups, groups),
        ):
            for name in named:
                if name not in known:
                    yield Fault(column, f"{name!r} does not exist", row.line, ", ".join(sorted(known)))


def _report(rows: tuple[Row, ...], done: list[dict[str, Any]], dry_run: bool) -> None:
    if dry_run:
        output.say(f"{plural(len(rows), 'user')} can be added.")
        return
    for one in done:
        if one["result"] == "refused":
            output.complain(Refused(one["code"], f"line {one['line']}: {one['username']}: {one['message']}"))
    counts = {result: sum(one["result"] == result for one in done) for result in ("added", "skipped", "refused")}
    output.say(f"{counts['added']} added, {counts['skipped']} skipped, {counts['refused']} refused.")
    output.next_step("pai user list")


def read(text: str) -> tuple[Row, ...]:
    """Return the rows of a CSV file; raise Refused with every fault in it."""
    try:
        lines = csv.DictReader(io.StringIO(text), skipinitialspace=True, strict=True)
        headings = tuple(heading.strip().lower() for heading in lines.fieldnames or ())
        lines.fieldnames = list(headings)
        rows: list[Row] = []
        faults = list(_heading_faults(headings))
        for found in () if faults else lines:
            row, wrong = _row(lines.line_num, found, {row.name for row in rows})
            rows.append(row)
            faults += wrong
    except csv.Error as error:
        raise _refused([Fault("", f"is not CSV: {error}")]) from error
    if faults:
        raise _refused(faults)
    if not rows:
        raise _refused([Fault("", "has no users")])
    return tuple(rows)


def _refused(faults: list[Fault]) -> PaiError:
    message = "\n".join(fault.describe() for fault in faults)
    return InvalidParameters(message, f"the heading is: {','.join(COLUMNS)}; no user was added")


def _heading_faults(headings: tuple[str, ...]) -> Iterator[Fault]:
    for needed in COLUMNS[:2]:
        if needed not in headings:
            yield Fault(needed, "this column is missing", 1)
    for name in headings:
        if name not in COLUMNS:
            yield Fault(name, "unknown column", 1, ", ".join(COLUMNS))


def _row(line: int, found: Mapping[str | None, Any], seen: set[str]) -> tuple[Row, list[Fault]]:
    given = {key: (found.get(key) or "").strip() for key in COLUMNS}
    faults = []
    if not _NAME.fullmatch(given["username"]):
        faults.append(Fault("username", f"{given['username']!r} is not a user name", line, "letters, digits, _ . -"))
    elif given["username"] in seen:
        faults.append(Fault("username", f"{given['username']} appears twice", line))
    if not _EMAIL.fullmatch(given["email"]):
        faults.append(Fault("email", f"{given['email']!r} is not an e-mail address", line))
    # A message never holds a password, not even a bad one. Spaces may belong to it.
    password = found.get("password") or ""
    if len(password) < _PASSWORD_MIN:
        faults.append(Fault("password", "is too short", line, f"{_PASSWORD_MIN} characters or more"))
    faults += [
        Fault(key, f"{given[key]!r} is neither true nor false", line, "true, false")
        for key in ("admin", "viewer")
        if given[key].lower() not in _YES | _NO
    ]
    if None in found:
        faults.append(Fault("", "has more cells than the heading", line))
    is_admin, is_viewer = (given[key].lower() in _YES for key in ("admin", "viewer"))
    granted = (tuple(re.split(r"[\s;,]+", given[key])) if given[key] else () for key in ("virtual cluster", "groups"))
    return Row(line, given["username"], password, given["email"], is_admin, is_viewer, *granted), faults
