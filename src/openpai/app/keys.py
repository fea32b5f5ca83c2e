"""The key of the vault: where a starting server finds it, and `pai admin rotate-key`, which replaces it.

A server makes a key for a new platform only. If secrets exist and their key is missing, the key was lost or left out of
a restored backup; a new key would make jobs fail one by one and hide the cause, so an administrator has to decide.

A rotation writes the new key beside the old one first and drops the old one last, so an interruption at any point
leaves a key for every secret. The server must be stopped, because it would seal with the old key.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import structlog

from openpai.app.admin import ConfigOption, DatabaseOption, DataDirOption
from openpai.app.datadir import DataDir, known_data_dir, refuse_visitors
from openpai.cli.output import Json, document, error_console, say, warn
from openpai.ports.store import LEASE_MS
from openpai.protocol.errors import BadConfiguration
from openpai.store.database import Database
from openpai.store.opening import migrate
from openpai.store.resealing import Resealed, count_sealed, leader, opens_newest, reseal
from openpai.store.vault import Vault, key_from, keys_in, new_key, write_keys

ENVIRONMENT: Final = "PAI_SECRET_KEY"
NEW_KEY: Final = "`openssl rand -base64 32 | tr +/ -_`"
_OTHERS: Final = 0o007
_log = structlog.get_logger(__name__)
_NAMED_MAX: Final = 5
LEASE_S: Final = LEASE_MS / 1000
_LOOK_S: Final = 0.2


def rotate_key(
    data_dir: DataDirOption = Path("~/.local/share/openpai"),
    database_url: DatabaseOption = None,
    config: ConfigOption = None,
    json: Json = False,
) -> None:
    """Seal all secrets with a new key, after which the old one opens nothing; stop the server first.

    After an interruption at any moment every secret is readable; run it again to finish.
    """
    with ExitStack() as stack:
        data = known_data_dir(data_dir)
        stack.callback(data.close)
        stack.callback(refuse_visitors(data).close)
        database = Database(data.require_database(database_url), inline=True)
        stack.callback(database.close)
        migrate(database)
        _refuse_servers(database, data)
        given = os.environ.get(ENVIRONMENT)
        keys = keys_in(given) if given else _keys_with_new(data.key_file)
        if len(keys) < 2:
            raise BadConfiguration(
                f"the key comes from {ENVIRONMENT}, which only you can change",
                f"set {ENVIRONMENT}=NEW,OLD, with {NEW_KEY} for NEW; then run this again",
            )
        done = _resealed(database, Vault(",".join(keys)))
        is_wrong = bool(done.lost) and not done.sealed
        if not given:
            write_keys(data.key_file, keys[1:] if is_wrong else keys[:1])
        if is_wrong:
            message = (
                f"the key opens none of the {len(done.lost)} secrets of this database, so it belongs to another one"
            )
            raise BadConfiguration(message, "put back the key that belongs to this one; nothing was changed")
    _report(done, from_environment=bool(given), as_json=json)


def _refuse_servers(database: Database, data: DataDir) -> None:
    found = leader(database)
    # A killed server of this directory leaves its lease, but this process holds the directory's lock.
    if found is None or found[0].rpartition("/")[0] == f"{socket.gethostname()}:{data.root}":
        return
    warn(f"the server {found[0]} led over this database last; waiting up to {LEASE_S:g} s to see whether it still runs")
    over_s = time.monotonic() + LEASE_S
    while time.monotonic() < over_s:
        time.sleep(_LOOK_S)
        now = leader(database)
        if now is not None and now != found:
            message = f"the server {now[0]} uses the same database"
            raise BadConfiguration(message, "stop every server of this database, and try again")


def _keys_with_new(path: Path) -> list[str]:
    """Return the keys of the file, a new one first; an interrupted rotation is continued instead."""
    require_key(path)
    keys = keys_in(key_from(path))
    if len(keys) == 1:
        Vault(keys[0])
        keys = [new_key(), *keys]
        write_keys(path, keys)
    return keys


def _resealed(database: Database, vault: Vault) -> Resealed:
    # Here, as a starting server reads this module, too.
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("sealing secrets"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=error_console(), transient=True) as progress:
        task = progress.add_task("", total=count_sealed(database))
        return reseal(database, vault, lambda count: progress.advance(task, count))


def _report(done: Resealed, *, from_environment: bool, as_json: bool) -> None:
    if as_json:
        document({"sealed": done.sealed, "lost": list(done.lost)})
        return
    say(f"{done.sealed} secrets are sealed with the new key.")
    if done.lost:
        named = ", ".join(done.lost[:_NAMED_MAX]) + (", ..." if len(done.lost) > _NAMED_MAX else "")
        say(f"{len(done.lost)} could not be opened by any key and were left unchanged: {named}")
    if from_environment:
        say(f"Now set {ENVIRONMENT} to the first key alone on every server, and start them.")
    else:
        say("The old key opens nothing in this database. Older backups still need it.")


def unlock(data: DataDir, database: Database, *, may_make: bool) -> Vault:
    """Return the vault of a database. Raises Refused when its key is missing or readable by other users."""
    given = os.environ.get(ENVIRONMENT)
    source = ENVIRONMENT if given else str(data.key_file)
    if not given:
        if not may_make or (not data.key_file.exists() and count_sealed(database)):
            require_key(data.key_file)
        _refuse_strangers(data.key_file)
    vault = Vault(given or key_from(data.key_file))
    if not opens_newest(database, vault):
        advice = "jobs with secrets will fail; put back the key that belongs to this database"
        _log.warning("the key opens none of the newest secrets", key=source, advice=advice)
    return vault


def require_key(file: Path) -> None:
    """Raise Refused when there is no key file."""
    if not file.exists():
        message = f"the key file {file} is missing, and secrets are sealed with its key"
        advice = f"put it back; if it is lost, write {NEW_KEY} to it and enter all secrets again"
        raise BadConfiguration(message, advice)


def _refuse_strangers(file: Path) -> None:
    if file.exists() and file.stat().st_mode & _OTHERS:
        message = f"every user of this machine may read or change the key file {file}"
        advice = f"chmod 600 {file}; if another user may have read it, also run `pai admin rotate-key`"
        raise BadConfiguration(message, advice)
