"""`pai admin restore`: creates a data directory from a backup while no server runs.

Nothing existing is touched before the whole backup is unpacked and compared with its manifest.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, Any, Final

from openpai.app import archive
from openpai.app.admin import ConfigOption, DatabaseOption, DataDirOption
from openpai.app.backup import STANDARD, progress
from openpai.app.datadir import RESTORE_STAGE, DataDir, known_data_dir, open_data_dir, refuse_visitors, restore_mark
from openpai.cli.options import argument, option
from openpai.cli.output import Json, document, next_step, say, warn
from openpai.protocol.errors import BadConfiguration, Unavailable
from openpai.store.copying import require_empty_postgres, restore_postgres, schema_of_sqlite
from openpai.store.database import normal_url
from openpai.store.opening import require_known
from openpai.store.portable import fill_postgres
from openpai.store.vault import flush

# What `open_data_dir` makes, what file systems have at their top, and what an earlier attempt left.
_NOTHING: Final = frozenset({"lock", "visitors", "lost+found", "backup", RESTORE_STAGE})
_MADE: Final = frozenset({"logs", "tasks", "code"})
_BEFORE: Final = "before-"


def restore(
    file: Annotated[Path, argument("FILE", "A file that `pai admin backup` wrote; - for standard input.")],
    data_dir: DataDirOption = Path("~/.local/share/openpai"),
    database_url: DatabaseOption = None,
    config: ConfigOption = None,
    force: Annotated[bool, option("--force", "Move aside a data directory that is not empty.")] = False,
    json: Json = False,
) -> None:
    """Create a data directory from a backup; stop the server and its tasks first.

    The directory must be empty or new. With --database-url, an empty PostgreSQL database is filled, also from a backup
    of SQLite.
    """
    is_piped = file == STANDARD
    root, file = data_dir.expanduser().absolute(), file.expanduser().absolute()
    if not is_piped and not file.is_file():
        raise BadConfiguration(f"there is no file {file}", "name a file that `pai admin backup` wrote")
    _refuse_full(root, force=force)
    with ExitStack() as stack:
        is_full = bool(_entries(root))
        data = known_data_dir(root) if is_full else open_data_dir(root)
        stack.callback(data.close)
        stack.callback(refuse_visitors(data).close)
        _refuse_full(root, force=force)
        stage = root / RESTORE_STAGE
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir(mode=0o700)
        stack.callback(shutil.rmtree, stage, ignore_errors=True)
        if is_piped:
            file = _received(stage)
        manifest = archive.unpack(file, stage)
        if is_piped:
            file.unlink()
        require_known(str(manifest["schema"]))
        _fill_database(stage, database_url, force=force)
        aside = _installed(data, stage, stack, database_url, is_full=is_full)
    _report(root, manifest, aside, as_json=json)


def _entries(root: Path) -> list[str]:
    """Return the entries of a directory that stand in the way of a restore."""
    try:
        # What is mounted there, such as the logs that several servers share, stays.
        names = {path.name for path in root.iterdir() if not path.is_mount()}
    except FileNotFoundError:
        return []
    except OSError as error:
        message = f"the data directory {root} cannot be used: {error.strerror}"
        raise BadConfiguration(message, "give another one with --data-dir") from error
    empty = {name for name in _MADE & names if not any((root / name).iterdir())}
    return sorted(name for name in names - _NOTHING - empty if not name.startswith(_BEFORE))


def _refuse_full(root: Path, *, force: bool) -> None:
    found = _entries(root)
    if found and not force:
        message = f"{root} is not empty: it holds {', '.join(found[:5])}"
        raise BadConfiguration(message, "choose a new directory with --data-dir, or use --force to move this one aside")


def _received(stage: Path) -> Path:
    """Return a file with what comes on standard input."""
    file = stage / "received"
    with file.open("xb") as made:
        shutil.copyfileobj(sys.stdin.buffer, made, 1 << 20)
    return file


def _fill_database(stage: Path, url: str | None, *, force: bool) -> None:
    is_sqlite = (stage / archive.SQLITE).exists()
    is_meant = url is None or normal_url(url).get_backend_name() == "sqlite"
    if is_sqlite:
        require_known(schema_of_sqlite(stage / archive.SQLITE))
        if url is None:
            return
        if is_meant:
            message = "the backup holds a SQLite database, which is restored in the data directory"
            raise BadConfiguration(message, "leave out --database-url; nothing was changed")
        aside = time.strftime("before_%Y%m%dT%H%M%S") if force else ""
        with progress("filling the database") as show:
            fill_postgres(url, stage / archive.SQLITE, show, aside=aside)
        (stage / archive.SQLITE).unlink()
        return
    if url is None or is_meant:
        message = "the backup holds a PostgreSQL database"
        advice = "give an empty one with --database-url postgresql://USER:PASSWORD@HOST/DATABASE"
        raise BadConfiguration(message, f"{advice}; nothing was changed")
    require_empty_postgres(url)
    restore_postgres(url, stage / archive.POSTGRES)
    (stage / archive.POSTGRES).unlink()


def _installed(data: DataDir, stage: Path, stack: ExitStack, url: str | None, *, is_full: bool) -> Path | None:
    """Move the unpacked files into place; return where the old content is now."""
    root, aside = data.root, None
    whose = root.stat()
    if is_full and root.is_mount():
        aside = _emptied(root)
    elif is_full:
        aside = _free_name(f"{root}.before-{time.strftime('%Y%m%dT%H%M%S')}")
        try:
            # From now until all is in place, no server may start with a new platform here.
            mark = restore_mark(root)
            if not mark.exists():
                mark.write_text(f"{aside}\n")
            root.rename(aside)
        except OSError as error:
            message = f"{root} cannot be moved aside: {error.strerror}"
            raise BadConfiguration(message, "move its content elsewhere, and try again") from error
        stage = aside / RESTORE_STAGE
        stack.callback(shutil.rmtree, stage, ignore_errors=True)
        data = open_data_dir(root)
        stack.callback(data.close)
    try:
        # The database last: without it, the directory does not look complete.
        for name in sorted((path.name for path in stage.iterdir()), key=lambda name: name == archive.SQLITE):
            if name in _MADE and (root / name).exists():
                (root / name).rmdir()
            (stage / name).rename(root / name)
        data.remember_database(url)
        _give(root, whose)
        with suppress(OSError):
            # Also that of an earlier, interrupted run.
            restore_mark(root).unlink(missing_ok=True)
    except OSError as error:
        message = f"{root} cannot be filled: {error.strerror or error}"
        raise Unavailable(message, "correct that, empty the directory, and try again") from error
    return aside


def _emptied(root: Path) -> Path:
    """Move the content of a mounted directory, which cannot be renamed, into a directory in it; return that."""
    # As long as the stage is there and no database, no server starts here.
    aside = _free_name(f"{root}/{_BEFORE}{time.strftime('%Y%m%dT%H%M%S')}")
    try:
        aside.mkdir(mode=0o700)
        # The database first: without it, the directory does not look complete.
        for name in sorted(_entries(root), key=lambda name: (not name.startswith(archive.SQLITE), name)):
            # Old logs may stay where the backup has none.
            if name != "logs" or (root / RESTORE_STAGE / "logs").exists():
                (root / name).rename(aside / name)
    except OSError as error:
        message = f"the content of {root} cannot be moved to {aside}: {error.strerror}"
        raise BadConfiguration(message, "move it elsewhere, and try again") from error
    return aside


def _free_name(wanted: str) -> Path:
    """Return an unused path: two restores may happen in one second, or a clock may be set back."""
    names = (Path(wanted), *(Path(f"{wanted}-{number}") for number in range(2, 100)))
    return next(path for path in names if not os.path.lexists(path))


def _give(root: Path, whose: os.stat_result) -> None:
    """Give everything to the old owner: root may restore the platform of a server that runs as another user."""
    if os.geteuid() == 0 and (whose.st_uid, whose.st_gid) != (0, 0):
        os.chown(root, whose.st_uid, whose.st_gid)
        for above, directories, files in os.walk(root):
            for name in (*directories, *files):
                os.chown(Path(above) / name, whose.st_uid, whose.st_gid, follow_symlinks=False)
    flush(root)


def _report(root: Path, manifest: dict[str, Any], aside: Path | None, *, as_json: bool) -> None:
    has_key = archive.KEY in manifest["files"]
    if not has_key:
        warn(f"the backup is without the key: copy it to {root / archive.KEY}, or its secrets cannot be opened")
    if as_json:
        what = {name: manifest.get(name) for name in ("version", "schema", "time", "database")}
        document({"dataDir": str(root), "hasKey": has_key, "movedAside": aside and str(aside), **what})
        return
    if aside:
        say(f"The old content is in {aside}.")
    taken = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(manifest["time"]))
    say(f"{root} holds the platform of {taken}.")
    next_step("pai admin check", "pai up")
