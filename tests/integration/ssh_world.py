"""An SSH gateway over a platform whose one task is a directory of this machine: commands in it really run."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import asyncssh

from openpai.api.rate_limits import LoginLimiter
from openpai.api.services import Settings
from openpai.api.shell_sessions import OpenSessions
from openpai.app.connection_limits import Connections
from openpai.backends.host.streams import connect
from openpai.backends.process.terminals import spawn_shell
from openpai.lifecycle.model import AttemptKey
from openpai.ports.shells import Shell, ShellCommand, Stream
from openpai.ports.usage import AuditFilter
from openpai.runtime.shell import start_words
from openpai.ssh.gateway import serve_ssh
from openpai.ssh.model import Limits, Services
from openpai.ssh.rights import Rights

from .api_world import World
from .leading import Leading, leading


class Local(Leading):
    """Commands over a task that is a directory of this machine."""

    place: Path
    shells: list[Shell]

    async def shell(self, key: AttemptKey, command: ShellCommand) -> Shell:
        await self.check_shell(key)
        words = start_words(os.urandom(8).hex(), str(self.place), command.term_or_none, command.words)
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.place), "OF_TASK": "yes"}
        shell = spawn_shell(words, environment, command, inherited=(), owner=None, first_descriptor=7)
        self.shells.append(shell)
        return shell

    async def connect(self, key: AttemptKey, port: int) -> Stream:
        await self.check_shell(key)
        return await connect("127.0.0.1", port)


@dataclass
class SshWorld:
    """A gateway, ann's running job `train`, and her key."""

    world: World
    platform: Local
    port: int
    place: Path
    key: asyncssh.SSHKey
    keys: dict[str, asyncssh.SSHKey] = field(default_factory=dict)

    @asynccontextmanager
    async def client(self, name: str = "ann+train", **options: Any) -> AsyncIterator[asyncssh.SSHClientConnection]:
        """Yield a connection that has logged in with ann's key."""
        options = {"client_keys": [self.key], "known_hosts": None, "config": None, "agent_path": None, **options}
        async with asyncio.timeout(30), asyncssh.connect("127.0.0.1", self.port, username=name, **options) as client:
            yield client

    async def add_key(self, user: str, key: asyncssh.SSHKey) -> None:
        """Put a key into a user's profile."""
        entry = {"title": "test", "value": key.export_public_key().decode(), "time": 1}
        await self.world.users.change_user(user, lambda known: replace(known, extension={"sshKeys": [entry]}))

    async def entries(self) -> list[Any]:
        """Return the audit entries of sessions, oldest first."""
        rows = await self.world.api.state.context.services.usage.audit(AuditFilter(actions=("job.exec",)))
        return [row.entry for row in reversed(rows)]


@asynccontextmanager
async def ssh_world(
    world: World,
    tmp_path: Path,
    limits: Mapping[str, Any] = {},
    *,
    logins: int = 5,
    pending: int = 200,
    **settings: Any,
) -> AsyncIterator[SshWorld]:
    """Yield a gateway with ann's running job `train`."""
    platform = await leading(world, Local)
    api = world.api.state.context.services
    place = tmp_path / "task"
    place.mkdir()
    platform.place, platform.shells = place, []
    services = Services(
        rights=Rights(world.users, world.queries, platform),
        usage=api.usage,
        clock=world.clock,
        logins=LoginLimiter(world.clock, per_min=logins, per_min_of_address=60, per_min_of_user=30),
        callers=Connections(files=pending * 4 // 3, per_address=pending // 4),
        one_session_of=OpenSessions(Settings("test", **settings)).one_of,
        rate=lambda address: None,
        limits=Limits(**limits),
    )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.setblocking(False)
        host_key = asyncssh.generate_private_key("ssh-ed25519").export_private_key()
        async with serve_ssh(listener, host_key, services):
            ssh = SshWorld(
                world, platform, listener.getsockname()[1], place, asyncssh.generate_private_key("ssh-ed25519")
            )
            await ssh.add_key("ann", ssh.key)
            yield ssh
    for shell in platform.shells:
        await shell.close()
