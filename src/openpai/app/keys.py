"""`pai admin rotate-key`: a new key for all secrets, and the old one opens nothing any more.

The new key is written down first, beside the old one, so that whatever is cut off half way leaves a key for every
secret; the old one is dropped last. A server is not running meanwhile, because it would seal with the old key.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from openpai.app.admin import DatabaseOption, DataDirOption
from openpai.app.datadir import DataDir, known_data_dir, refuse_visitors
from openpai.app.unlocking import ENVIRONMENT, NEW_KEY, require_key
from openpai.cli.output import Json, document, error_console, say, warn
from openpai.ports.store import LEASE_MS
from openpai.protocol.errors import Refused
from openpai.store.database import Database
from openpai.store.opening import migrate
from openpai.store.resealing import Resealed, count_sealed, leader, reseal
from openpai.store.vault import Vault, key_from, keys_in, new_key, write_keys

_NAMED_MAX: Final = 5
LEASE_S: Final = LEASE_MS / 1000
_LOOK_S: Final = 0.2


def rotate_key(
    data_dir: DataDirOption = Path("~/.local/share/openpai"),
    database_url: DatabaseOption = None,
    json: Json = False,
) -> None:
    """Seal all secrets with a new key, and let the old one open nothing any more; stop the server first.

    Cut off at any moment, it leaves every secret readable; run it again to finish.
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
            raise Refused(
                "BadConfigurationError",
                f"the key comes from {ENVIRONMENT}, which nobody but you can change",
                f"set {ENVIRONMENT}=NEW,OLD, with {NEW_KEY} for NEW; then run this again",
            )
        done = _resealed(database, Vault(",".join(keys)))
        is_wrong = bool(done.lost) and not done.sealed
        if not given:
            write_keys(data.key_file, keys[1:] if is_wrong else keys[:1])
        if is_wrong:
            message = f"the key opens none of the {len(done.lost)} secrets there are, so it belongs to another database"
            raise Refused(
                "BadConfigurationError", message, "put back the key that belongs to this one; nothing was changed"
            )
    _tell(done, from_environment=bool(given), as_json=json)


def _refuse_servers(database: Database, data: DataDir) -> None:
    found = leader(database)
    # A server that was killed leaves its lease behind; nobody else can be in the directory that we hold.
    if found is None or found[0].rpartition("/")[0] == f"{socket.gethostname()}:{data.root}":
        return
    warn(f"the server {found[0]} led over this database last; whether it still does shows within {LEASE_S:g} s")
    over_s = time.monotonic() + LEASE_S
    while time.monotonic() < over_s:
        time.sleep(_LOOK_S)
        now = leader(database)
        if now is not None and now != found:
            message = f"the server {now[0]} uses the same database"
            raise Refused("BadConfigurationError", message, "stop every server of this database, and try again")


def _keys_with_new(path: Path) -> list[str]:
    """Return the keys of the file, a new one first; a rotation that was begun is finished instead."""
    require_key(path)
    keys = keys_in(key_from(path))
    if len(keys) == 1:
        Vault(keys[0])
        keys = [new_key(), *keys]
        write_keys(path, keys)
    return keys


def _resealed(database: Database, vault: Vault) -> Resealed:
    columns = (TextColumn("sealing secrets anew"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=error_console(), transient=True) as progress:
        task = progress.add_task("", total=count_sealed(database))
        return reseal(database, vault, lambda count: progress.advance(task, count))


def _tell(done: Resealed, *, from_environment: bool, as_json: bool) -> None:
    if as_json:
        document({"sealed": done.sealed, "lost": list(done.lost)})
        return
    say(f"{done.sealed} secrets are sealed with the new key.")
    if done.lost:
        named = ", ".join(done.lost[:_NAMED_MAX]) + (", ..." if len(done.lost) > _NAMED_MAX else "")
        say(f"{len(done.lost)} could not be opened by any key and were left as they are: {named}")
    if from_environment:
        say(f"Now leave nothing but the first key in {ENVIRONMENT}, for every server, and start them.")
    else:
        say("The old key opens nothing any more. Backups made before still need it.")
