"""Seals secrets with a key that is kept outside the database.

The key is a file that only the server's user can read, created at the first start, or an environment variable. Of
several keys, separated by commas, the first seals and all of them open, so that a key can be replaced.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from openpai.ports.store import Sealed
from openpai.protocol.errors import BadConfiguration

_PUT_BACK: Final = "put back the key file that belongs to the database"


class Vault:
    """Seals and opens the secrets of jobs and the credentials of storages."""

    def __init__(self, keys: str) -> None:
        try:
            fernets = [Fernet(key) for key in keys_in(keys)]
            self._fernet, self._newest = MultiFernet(fernets), fernets[0]
        except (ValueError, IndexError) as error:
            raise BadConfiguration(
                "the secret key is not a key",
                "it must be 32 random bytes in URL-safe base64, as the server creates it at its first start",
            ) from error

    def seal(self, secrets: Mapping[str, Any]) -> Sealed | None:
        """Return the secrets encrypted, None when there are none."""
        if not secrets:
            return None
        return Sealed(self._fernet.encrypt(json.dumps(dict(secrets)).encode()))

    def open(self, sealed: Sealed | None) -> dict[str, Any]:
        """Return what was sealed. Raises Refused when no key opens it."""
        if sealed is None:
            return {}
        try:
            opened: dict[str, Any] = json.loads(self._fernet.decrypt(sealed.data))
        except InvalidToken as error:
            raise BadConfiguration(
                "these secrets were sealed with another key",
                "start the server with the key file of the data directory that this database belongs to",
            ) from error
        return opened

    def opens(self, data: bytes) -> bool:
        """Return whether any of the keys opens what was sealed."""
        try:
            self._fernet.decrypt(data)
        except InvalidToken:
            return False
        return True

    def resealed(self, data: bytes) -> bytes | None:
        """Return it sealed with the first key, unchanged if it is already; None if no key opens it."""
        try:
            self._newest.decrypt(data)
        except InvalidToken:
            try:
                return self._fernet.rotate(data)
            except InvalidToken:
                return None
        return data


def keys_in(text: str) -> list[str]:
    """Return the keys in a text; the first one seals."""
    return [key.strip() for key in text.split(",") if key.strip()]


def new_key() -> str:
    """Return a new random key."""
    return Fernet.generate_key().decode()


def key_from(path: Path) -> str:
    """Return the key in the file at `path`, creating file and key if missing. Raises Refused for an invalid key."""
    if not path.exists():
        write_keys(path, [new_key()])
    try:
        keys = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a text"
        raise BadConfiguration(f"the key file {path} cannot be read: {why}", _PUT_BACK) from error
    if not keys:
        raise BadConfiguration(f"the key file {path} is empty", _PUT_BACK)
    return keys


def write_keys(path: Path, keys: Sequence[str]) -> None:
    """Write keys to a file that only its owner can read; a concurrent reader gets either the old ones or the new."""
    # Follow a link, so that the old key does not stay at its target.
    path = path.resolve()
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.unlink(missing_ok=True)
    made = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(made, "wb") as file:
        if path.exists():
            # An administrator who rotates keys as root must leave the file to the server's user.
            known = path.stat()
            if (known.st_uid, known.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), known.st_uid, known.st_gid)
        file.write(",".join(keys).encode())
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    flush(path.parent)


def flush(directory: Path) -> None:
    """Make the names in a directory durable."""
    held = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(held)
    finally:
        os.close(held)
