"""SSH keys of users in the shapes of the API."""

from __future__ import annotations

from openpai.access import ssh_keys
from openpai.wire.ssh_keys import SshKey


def ssh_key(key: ssh_keys.SshKey) -> SshKey:
    """Return a key of a profile."""
    return {
        "id": key.id,
        "title": key.title,
        "type": key.type,
        "bits": key.bits,
        "fingerprint": key.fingerprint,
        "key": key.text,
        "addedTime": key.added_at_ms,
    }
