"""`pai admin restore`: creates a data directory from a backup while no server runs.

Nothing existing is touched before the whole backup is unpacked and compared with its manifest.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, Any, Final

from openpai.app import archive
from openpai.app.admin import DatabaseOption, DataDirOption
from openpai.app.datadir import RESTORE_STAGE, DataDir, known_data_dir, open_data_dir, refuse_visitors, restore_mark
from openpai.cli.options import argument, option
from openpai.cli.output import Json, document, next_step, say, warn
from openpai.protocol.errors import BadConfiguration, Unavailable
from openpai.store.copying import require_empty_postgres, restore_postgres, schema_of_sqlite
from openpai.store.database import normal_url
from openpai.store.opening import require_known

# What `open_data_dir` makes, what file systems have at their top, and what an earlier attempt left.
_NOTHING: Final = frozenset({"lock", "visitors", "lost+found", RESTORE_STAGE})
_MADE: Final = frozenset({"logs", "tasks"})


def restore(
    file: Annotated[Path, argument("FILE", "A file that `pai admin backup` wrote.")],
    data_dir: DataDirOption = Path("~/.local/share/openpai"),
    database_url: DatabaseOption = None,
    force: Annotated[bool, option("--force", "Move aside a data directory that is not empty.")] = False,
    json: Json = False,
) -> None:
    """Create a data directory from a backup; stop the server and its tasks first.

    The directory must be empty or new. For a backup of PostgreSQL, --database-url names an empty database to fill.
    """
    root, file = data_dir.expanduser().absolute(), file.expanduser().absolute()
    if not file.is_file():
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
        manifest = archive.unpack(file, stage)
        require_known(str(manifest["schema"]))
        _fill_database(stage, database_url)
        aside = _installed(data, stage, stack, database_url, is_full=is_full)
    _report(root, manifest, aside, as_json=json)


def _entries(root: Path) -> list[str]:
    """Return the entries of a directory that stand in the way of a restore."""
    try:
        names = {path.name for path in root.iterdir()}
    except FileNotFoundError:
        return []
    except OSError as error:
        message = f"the data directory {root} cannot be used: {error.strerror}"
        raise BadConfiguration(message, "give another one with --data-dir") from error
    empty = {name for name in _MADE & names if not any((root / name).iterdir())}
    return sorted(names - _NOTHING - empty)


def _refuse_full(root: Path, *, force: bool) -> None:
    found = _entries(root)
    if found and not force:
        message = f"{root} is not empty: it holds {', '.join(found[:5])}"
        raise BadConfiguration(message, "choose a new directory with --data-dir, or use --force to move this one aside")
    if found and root.is_mount():
        message = f"{root} is a mount point, which cannot be moved aside"
        raise BadConfiguration(message, "move its content elsewhere, and try again")


def _fill_database(stage: Path, url: str | None) -> None:
    is_sqlite = (stage / archive.SQLITE).exists()
    is_meant = url is None or normal_url(url).get_backend_name() == "sqlite"
    if is_sqlite and url is not None:
        message = "the backup holds a SQLite database, which is restored in the data directory"
        raise BadConfiguration(message, "leave out --database-url; nothing was changed")
    if is_sqlite:
        require_known(schema_of_sqlite(stage / archive.SQLITE))
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
    if is_full:
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
            if name in _MADE:
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
    held = os.open(root, os.O_RDONLY)
    try:
        os.fsync(held)
    finally:
        os.close(held)


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
