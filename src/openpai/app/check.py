"""`pai admin check`: whether everything that a server needs exists, is undamaged and is private. Changes nothing."""

from __future__ import annotations

import json as json_
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import typer

from openpai.app.admin import ConfigOption, DatabaseOption, DataDirOption
from openpai.app.datadir import DataDir, look_at_data_dir
from openpai.app.keys import ENVIRONMENT
from openpai.cli.output import Json, document, say
from openpai.protocol.errors import PaiError
from openpai.store.checking import Checking
from openpai.store.database import Database
from openpai.store.vault import Vault, key_from
from openpai.system.disk_space import scarce_below, space_of

_NAMED_MAX: Final = 5
_MB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    what: str
    state: Literal["ok", "warning", "fault"]
    message: str
    advice: str = ""


def check(
    data_dir: DataDirOption = Path("~/.local/share/openpai"),
    database_url: DatabaseOption = None,
    config: ConfigOption = None,
    json: Json = False,
) -> None:
    """Check database, secrets, files, permissions and free space; the server may run.

    It changes nothing, and exits with 1 if there is a fault. It reads all rows and secrets, which takes a while.
    """
    with ExitStack() as stack:
        data = look_at_data_dir(data_dir)
        stack.callback(data.close)
        findings = list(of_database_and_files(data, database_url))
    report(findings, {"dataDir": str(data.root)}, as_json=json)


def of_database_and_files(data: DataDir, database_url: str | None) -> Iterator[Finding]:
    """Yield what the checks of a data directory and its database find."""
    yield _of_directory(data)
    yield _of_key(data)
    yield from _guarded("user numbers", lambda: _of_uids(data))
    yield _of_space(data)
    yield _of_metrics(data)
    try:
        database = Database(data.require_database(database_url), inline=True)
    except PaiError as error:
        yield Finding("database", "fault", error.message, error.advice)
        return
    try:
        checking = Checking(database)
        for what, look in (
            ("database", lambda: _of_database(checking)),
            ("schema", lambda: _of_schema(checking)),
            ("secrets", lambda: _of_secrets(checking, data)),
            ("accounting", lambda: _of_books(checking)),
            ("logs", lambda: _of_logs(checking, data)),
        ):
            for finding in _guarded(what, look):
                yield finding
                if what == "schema" and finding.state != "ok":
                    # The checks that follow need tables that do not exist.
                    return
    finally:
        database.close()


def _guarded(what: str, look: Callable[[], Finding]) -> Iterator[Finding]:
    try:
        yield look()
    except PaiError as error:
        yield Finding(what, "fault", error.message, error.advice)
    except OSError as error:
        yield Finding(what, "fault", f"{error.filename or what} cannot be read: {error.strerror}")


def _of_directory(data: DataDir) -> Finding:
    mode = data.root.stat().st_mode & 0o777
    message = f"{data.root} has the mode {mode:o}"
    if mode & 0o022:
        return Finding("directory", "fault", f"{message}: others may create files in it", f"chmod go-w {data.root}")
    if mode & 0o044:
        return Finding("directory", "warning", f"{message}: other users may see its content", f"chmod go-r {data.root}")
    return Finding("directory", "ok", message)


def _of_key(data: DataDir) -> Finding:
    file = data.key_file
    if not file.exists():
        if os.environ.get(ENVIRONMENT):
            return Finding("key", "ok", f"it comes from {ENVIRONMENT}")
        return Finding("key", "fault", f"{file} is missing", f"put it back from a backup, or set {ENVIRONMENT}")
    found = file.stat()
    message = f"{file} has the mode {found.st_mode & 0o777:o}"
    if found.st_mode & 0o007:
        advice = f"chmod 600 {file}, then run `pai admin rotate-key`"
        return Finding("key", "fault", f"{message}: every user of this machine may read or change it", advice)
    if found.st_mode & 0o070:
        return Finding("key", "warning", f"{message}: its group may read or change it", f"chmod 600 {file}")
    owner = data.root.stat().st_uid
    if found.st_uid not in (owner, 0):
        return Finding("key", "warning", f"{file} belongs to another user than {data.root}", "chown it")
    return Finding("key", "ok", message)


def _of_uids(data: DataDir) -> Finding:
    what = "user numbers"
    if not data.task_uids.exists():
        return Finding(what, "ok", "there are none: --task-uids was not used")
    by_uid: dict[int, str] = {}
    whole = data.task_uids.read_text("utf-8", errors="replace").rpartition("\n")[0]
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            entry = json_.loads(line)
            person, uid = str(entry["person"]), int(entry["uid"])
        except (ValueError, KeyError, TypeError):
            return Finding(what, "fault", f"line {number} of {data.task_uids} is damaged", "restore the file")
        if by_uid.setdefault(uid, person) != person:
            message = f"{person} and {by_uid[uid]} have the same number {uid}, so each can use the other's files"
            return Finding(what, "fault", message, f"restore {data.task_uids} from a backup")
    return Finding(what, "ok", f"{len(by_uid)} users have one")


def _of_space(data: DataDir) -> Finding:
    space = space_of(str(data.root))
    least = scarce_below(space.total)
    message = f"{space.free // _MB} MiB are free; new jobs need {least // _MB} MiB"
    if space.free < least:
        return Finding("space", "fault", message, "free some space on the disk of the data directory")
    if space.free < 2 * least:
        return Finding("space", "warning", message, "free some space on the disk of the data directory")
    return Finding("space", "ok", message)


def _of_database(checking: Checking) -> Finding:
    faults = checking.faults()
    if faults:
        return Finding("database", "fault", f"it is damaged: {'; '.join(faults)}", "restore it from a backup")
    return Finding("database", "ok", f"{checking.version()}: all of it can be read")


def _of_schema(checking: Checking) -> Finding:
    at, is_newest = checking.schema()
    if not at:
        return Finding("schema", "fault", "it has none", "restore the database from a backup")
    if not is_newest:
        return Finding(
            "schema", "warning", f"{at} is older than this openpai", "the next `pai up` brings it up to date"
        )
    return Finding("schema", "ok", at)


def _of_secrets(checking: Checking, data: DataDir) -> Finding:
    given = os.environ.get(ENVIRONMENT)
    if not given and not data.key_file.exists():
        return Finding("secrets", "fault", "there is no key to try", "put the key back from a backup")
    found = checking.secrets(Vault(given or key_from(data.key_file)))
    if not found.lost:
        return Finding("secrets", "ok", f"the key opens all {found.total}")
    message = f"the key does not open {len(found.lost)} of {found.total}: {_named(found.lost)}"
    return Finding("secrets", "fault", message, "put back the key that belongs to this database")


def _of_books(checking: Checking) -> Finding:
    wrong = checking.books()
    if wrong:
        message = "; ".join(f"{count} {what}" for what, count in wrong.items())
        advice = (
            "reports and quotas of these users are wrong: restore the database, or report it with `pai admin bundle`"
        )
        return Finding("accounting", "fault", message, advice)
    return Finding("accounting", "ok", "every hour belongs to a job, and none is negative")


def _of_metrics(data: DataDir) -> Finding:
    file = data.root / "metrics.db"
    if not file.exists():
        return Finding("metrics", "ok", "none are kept here")
    try:
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=10)) as opened:
            (found,) = opened.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        found = str(error)
    if found == "ok":
        return Finding("metrics", "ok", "all of the file can be read")
    advice = "the next `pai up` puts it aside and begins a new one; jobs are not concerned"
    return Finding("metrics", "warning", f"{file} is damaged: {found}", advice)


def _of_logs(checking: Checking, data: DataDir) -> Finding:
    # Those whose files are here write their logs here, from their start on. Others, on simulated nodes or on
    # Kubernetes, have a directory once they print something.
    places = [place for place in data.tasks.iterdir() if place.is_dir()] if data.tasks.is_dir() else []
    running = [name for key in checking.running() if any((place / (name := key.path())).is_dir() for place in places)]
    lost = tuple(name for name in running if not (data.logs / name).is_dir())
    if lost:
        message = f"{len(lost)} of {len(running)} tasks that run here have no directory in {data.logs}: {_named(lost)}"
        return Finding("logs", "warning", message, "restore the logs")
    return Finding("logs", "ok", f"all {len(running)} tasks that run here have theirs")


def _named(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_NAMED_MAX]) + (", ..." if len(names) > _NAMED_MAX else "")


def report(findings: Sequence[Finding], about: Mapping[str, Any], *, as_json: bool) -> None:
    """Print findings; exit with 1 if one of them is a fault."""
    if as_json:
        document({**about, "findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            advice = f"; {finding.advice}" if finding.advice else ""
            say(f"{finding.state:8}{finding.what}: {finding.message}{advice}")
    if any(finding.state == "fault" for finding in findings):
        raise typer.Exit(1)
