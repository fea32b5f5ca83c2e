"""The key of the vault when a server starts: from the environment or a file, made for a new platform and never again.

A key that is missing beside secrets was lost or forgotten, perhaps when a backup was put back. A new one in its place
would let jobs fail one by one and hide what happened, so it is for a person to decide.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import structlog

from openpai.app.datadir import DataDir
from openpai.protocol.errors import Refused
from openpai.store.database import Database
from openpai.store.resealing import count_sealed, opens_newest
from openpai.store.vault import Vault, key_from

ENVIRONMENT: Final = "PAI_SECRET_KEY"
NEW_KEY: Final = "`openssl rand -base64 32 | tr +/ -_`"
_OTHERS: Final = 0o007
_log = structlog.get_logger(__name__)


def unlock(data: DataDir, database: Database, *, may_make: bool) -> Vault:
    """Return the vault of a database. Raises Refused when its key is missing or open to everybody."""
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
        advice = f"put it back; if it is lost for good, write {NEW_KEY} to it and say all secrets anew"
        raise Refused("BadConfigurationError", message, advice)


def _refuse_strangers(file: Path) -> None:
    if file.exists() and file.stat().st_mode & _OTHERS:
        message = f"every user of this machine may read or change the key file {file}"
        advice = f"chmod 600 {file}; if somebody may have read it, also run `pai admin rotate-key`"
        raise Refused("BadConfigurationError", message, advice)
