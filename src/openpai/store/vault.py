"""Secrets at rest: sealed with a key that lives outside the database.

The key is a file that only the server's user can read, made at the first start, or comes from the environment.
Several keys, separated by commas, may be given: the first seals, all of them open, so a key can be replaced.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from openpai.ports.store import Sealed
from openpai.protocol.errors import Refused


class Vault:
    """Seals and opens the secrets of jobs."""

    def __init__(self, keys: str) -> None:
        try:
            self._fernet = MultiFernet([Fernet(key.strip()) for key in keys.split(",") if key.strip()])
        except ValueError as error:
            raise Refused(
                "BadConfigurationError",
                "the secret key is not a key",
                "it must be 32 random bytes in URL-safe base64, as the server makes it at its first start",
            ) from error

    def seal(self, secrets: Mapping[str, Any]) -> Sealed | None:
        """Return the secrets encrypted, None when there are none."""
        if not secrets:
            return None
        return Sealed(self._fernet.encrypt(json.dumps(dict(secrets)).encode()))

    def open(self, sealed: Sealed | None) -> dict[str, Any]:
        """Return what was sealed. Raises Refused when it was sealed with a key we do not have."""
        if sealed is None:
            return {}
        try:
            opened: dict[str, Any] = json.loads(self._fernet.decrypt(sealed.data))
        except InvalidToken as error:
            raise Refused(
                "BadConfigurationError",
                "the job's secrets were sealed with another key",
                "give the server the key file of the data directory that this database belongs to",
            ) from error
        return opened


def key_from(path: Path) -> str:
    """Return the key in the file at `path`, making file and key if there are none."""
    if not path.exists():
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(made, "wb") as file:
            file.write(Fernet.generate_key())
    return path.read_text().strip()
