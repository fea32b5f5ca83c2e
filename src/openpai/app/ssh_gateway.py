"""The SSH gateway of a server: its port, its host key, and what it shares with the API.

The key is made once and stays in the data directory and in its backups, so that clients meet the same server after
every restart. Logins that fail, open sessions and the right to a task are counted and decided as for the API.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from openpai.api.context import ApiContext
from openpai.api.rate_limits import RateLimiter, network_of
from openpai.api.services import Rate, SshGateway
from openpai.app.connection_limits import Connections
from openpai.app.settings import Settings
from openpai.protocol.errors import BadConfiguration

PENDING_MAX: Final = 200
"""Connections that have not logged in yet: of one address a quarter of them."""
RATE: Final = Rate(10, 100)
"""New connections of one address: each costs the server some milliseconds before its login."""
_OTHERS: Final = 0o077
_FILE_MAX: Final = 64 * 1024


def read_host_key(settings: Settings, own: Path) -> bytes:
    """Return the private host key: that of the settings, or that of the data directory, which is made if missing."""
    given = settings.ssh_host_key
    file = own if given is None else given.expanduser()
    try:
        if given is None and not own.exists():
            _make(own)
        if file.stat().st_mode & _OTHERS:
            message = f"other users of this machine may read or change the SSH host key {file}"
            raise BadConfiguration(
                message, f"chmod 600 {file}; if another user may have read it, remove it: a new one is made"
            )
        with file.open("rb") as opened:
            return opened.read(_FILE_MAX)
    except OSError as error:
        raise BadConfiguration(f"the SSH host key {file} cannot be read: {error.strerror}", "correct that") from error


def _make(file: Path) -> None:
    import asyncssh

    key = asyncssh.generate_private_key("ssh-ed25519", comment="openpai").export_private_key()
    unfinished = file.with_suffix(".part")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(key)
        opened.flush()
        os.fsync(opened.fileno())
    unfinished.replace(file)


def described(listener: socket.socket, host_key: bytes) -> SshGateway:
    """Return what clients need to know of a gateway; raise BadConfiguration for a key that is none."""
    import asyncssh

    try:
        public = asyncssh.import_private_key(host_key).export_public_key().decode()
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError, ValueError) as error:
        raise BadConfiguration(
            f"the SSH host key cannot be used: {error}", "give a private key without a passphrase"
        ) from error
    return SshGateway(listener.getsockname()[1], " ".join(public.split()[:2]))


@asynccontextmanager
async def ssh_gateway(listener: socket.socket, host_key: bytes, context: ApiContext) -> AsyncIterator[None]:
    """Answer SSH clients until the end of the context."""
    from openpai.ssh.gateway import serve_ssh
    from openpai.ssh.model import Limits, Services
    from openpai.ssh.rights import Rights

    api = context.services
    rates = RateLimiter(RATE, api.clock, "too many SSH connections in a short time")
    services = Services(
        rights=Rights(api.users, api.jobs, api.platform),
        usage=api.usage,
        clock=api.clock,
        logins=context.logins,
        # Three quarters of the files are connections, and a quarter of those may be of one address.
        callers=Connections(files=PENDING_MAX * 4 // 3, per_address=PENDING_MAX),
        one_session_of=context.shells.one_of,
        rate=lambda address: rates.take(network_of(address)),
        limits=Limits(idle_s=api.settings.shell_idle_s),
    )
    async with serve_ssh(listener, host_key, services):
        yield
