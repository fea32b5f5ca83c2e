"""`pai admin backup`: everything that cannot be recreated, in one file, while the server runs."""

from __future__ import annotations

import fcntl
import json as json_
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from openpai.app import archive
from openpai.app.admin import ConfigOption, DatabaseOption, DataDirOption
from openpai.app.datadir import LAST_BACKUP, DataDir, look_at_data_dir
from openpai.app.keys import ENVIRONMENT
from openpai.cli import formatting
from openpai.cli.options import argument, option
from openpai.cli.output import Json, document, error_console, say, warn
from openpai.protocol.errors import BadConfiguration, Unavailable
from openpai.store.copying import copy_sqlite, dump_postgres, has_postgres_tools, schema_of_sqlite
from openpai.store.database import normal_url
from openpai.store.portable import copy_postgres
from openpai.store.vault import flush

STANDARD: Final = Path("-")


def backup(
    file: Annotated[Path, argument("FILE", "The file to write, such as openpai.tar.gz; - for standard output.")],
    data_dir: DataDirOption = Path("~/.local/share/openpai"),
    database_url: DatabaseOption = None,
    config: ConfigOption = None,
    logs: Annotated[bool, option("--logs", "Include the logs of tasks.")] = False,
    without_key: Annotated[bool, option("--without-key", "Leave out the key of the secrets.")] = False,
    force: Annotated[bool, option("--force", "Replace FILE if it exists.")] = False,
    json: Json = False,
) -> None:
    """Write database, key and user numbers to one file; the server may run.

    With the key in it, the file opens every secret: keep it as safe as a password.
    """
    if (is_piped := file == STANDARD) and (json or sys.stdout.isatty()):
        raise BadConfiguration("the backup itself goes to standard output", "send it to a file, without --json")
    with ExitStack() as stack:
        data = look_at_data_dir(data_dir)
        stack.callback(data.close)
        url = data.require_database(database_url)
        file = _piped(data) if is_piped else _target(file, data, force=force)
        stack.enter_context(_ended_by_signals())
        work = stack.enter_context(_workplace(file))
        try:
            manifest = _write(data, url, work, with_logs=logs, with_key=not without_key)
            if is_piped:
                _send(work / "backup")
            else:
                (work / "backup").replace(file)
                flush(file.parent)
            _remember(data, file, is_piped=is_piped)
        except OSError as error:
            at = f" ({error.filename})" if error.filename else ""
            message = f"the backup {file} cannot be written: {error.strerror or error}{at}"
            raise Unavailable(
                message, "correct that, or choose a place with room for two copies of the database, and try again"
            ) from error
    if not is_piped:
        _report(file, manifest, without_key=without_key, as_json=json)


def _remember(data: DataDir, file: Path, *, is_piped: bool) -> None:
    """Note the backup in the data directory, for `pai admin doctor`; one who may only read it leaves no note."""
    with suppress(OSError):
        note = {"time": int(time.time()), "file": "standard output" if is_piped else str(file)}
        (data.root / LAST_BACKUP).write_text(json_.dumps(note))


def _piped(data: DataDir) -> Path:
    """Return where a backup for standard output is made: in the data directory, which has room for a database."""
    place = data.root / "backup"
    place.mkdir(mode=0o700, exist_ok=True)
    return place / "piped"


def _send(file: Path) -> None:
    with file.open("rb") as made:
        shutil.copyfileobj(made, sys.stdout.buffer, 1 << 20)
    sys.stdout.buffer.flush()


def _target(file: Path, data: DataDir, *, force: bool) -> Path:
    file = file.expanduser().absolute()
    if not file.parent.is_dir():
        raise BadConfiguration(f"there is no directory {file.parent}", "create it, or choose another")
    # Other names of its directory do not matter.
    file = file.parent.resolve() / file.name
    if file.is_relative_to(data.root.resolve()):
        message = f"{file} is in the data directory and would be lost with it"
        raise BadConfiguration(message, "choose a place outside, best on another machine")
    if file.is_dir() or (os.path.lexists(file) and not force):
        raise BadConfiguration(f"{file} exists already", "choose another name, or use --force to replace it")
    return file


@contextmanager
def _workplace(file: Path) -> Iterator[Path]:
    """Create a directory beside `file` that no other user can enter, and remove it at the end.

    If a run is killed, the next run removes its directory.
    """
    work = file.with_name(f".{file.name}.part")
    try:
        work.mkdir(mode=0o700, exist_ok=True)
        held = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        message = f"{file.parent} cannot be written: {error.strerror}"
        raise BadConfiguration(message, "choose a directory that belongs to you") from error
    try:
        if os.fstat(held).st_uid != os.geteuid():
            raise BadConfiguration(f"{work} belongs to another user", "choose another directory")
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BadConfiguration(f"another backup is being written to {file}", "wait for its end") from error
        os.fchmod(held, 0o700)
        for left in work.iterdir():
            left.unlink()
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)
    finally:
        os.close(held)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """End the command on SIGTERM and SIGHUP as on Ctrl-C, which removes everything temporary."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _write(data: DataDir, url: str, work: Path, *, with_logs: bool, with_key: bool) -> dict[str, Any]:
    """Write the backup to the file `backup` in a directory of its own; return its manifest."""
    parsed = normal_url(url)
    is_sqlite = parsed.get_backend_name() == "sqlite"
    # The image of a server has no tools of PostgreSQL.
    is_dump = not is_sqlite and has_postgres_tools()
    name = archive.POSTGRES if is_dump else archive.SQLITE
    copy = work / "copy"
    os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    if is_sqlite:
        with progress("copying the database") as show:
            copy_sqlite(Path(str(parsed.database)), copy, show)
        schema = schema_of_sqlite(copy)
    elif is_dump:
        schema = dump_postgres(url, copy)
    else:
        with progress("copying the database") as show:
            schema = copy_postgres(url, copy, show)
    manifest: dict[str, Any] = {
        "version": version("openpai"),
        "schema": schema,
        "time": int(time.time()),
        "database": "sqlite" if is_sqlite else "postgresql",
    }
    made = os.open(work / "backup", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(made, "wb") as file:
        writing, packed = archive.write_archive(file)
        with copy.open("rb") as copied:
            writing.add(name, copied)
        copy.unlink()
        _add_files(writing, data, with_logs=with_logs, with_key=with_key)
        writing.finish(manifest)
        packed.close()
        file.flush()
        os.fsync(made)
    return {**manifest, "files": writing.files}


def _add_files(writing: archive.Writing, data: DataDir, *, with_logs: bool, with_key: bool) -> None:
    # After the database: additional user numbers do no harm, missing ones would.
    for name, path in (
        (archive.UIDS, data.task_uids),
        (archive.KEY, data.key_file),
        (archive.SSH_KEY, data.ssh_host_key),
    ):
        if path.exists() and (with_key or name == archive.UIDS):
            with path.open("rb") as file:
                writing.add(name, file)
    writing.add_tree(data.code)
    if with_logs:
        writing.add_tree(data.logs)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal; call what this yields with how much is done, and how much there is."""
    columns = (TextColumn(what), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=error_console(), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _report(file: Path, manifest: dict[str, Any], *, without_key: bool, as_json: bool) -> None:
    files: dict[str, Any] = manifest["files"]
    has_key = archive.KEY in files
    if not has_key:
        why = "as you asked" if without_key else f"as there is none in the data directory; {ENVIRONMENT} may hold it"
        warn(f"the backup is without the key, {why}: its secrets are lost unless you keep the key elsewhere")
    size = file.stat().st_size
    if as_json:
        document({"file": str(file), "size": size, "hasKey": has_key, **manifest})
        return
    counts = {what: sum(name.startswith(f"{what}/") for name in files) for what in ("code", "logs")}
    parts = [manifest["database"], "key"] if has_key else [manifest["database"]]
    parts += ["user numbers"] if archive.UIDS in files else []
    parts += [f"{what} ({count} files)" for what, count in counts.items() if count]
    say(f"{file} ({formatting.size(size)}) holds {', '.join(parts)}, schema {manifest['schema']}.")
