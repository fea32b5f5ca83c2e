"""Commands of users in running tasks. Only the leader's backend reaches them; any other server answers NotLeading."""

from __future__ import annotations

from openpai.lifecycle.actions import is_current
from openpai.lifecycle.model import AttemptKey
from openpai.orchestrator.leader import LeaderCommands
from openpai.ports.shells import Shell, ShellCommand, Shells, Stream, not_running
from openpai.protocol.errors import Refused


class ShellCommands(LeaderCommands):
    """The part of `ports.platform.Platform` about commands in tasks."""

    async def require_leader(self) -> None:
        await self._leading()

    async def check_shell(self, key: AttemptKey) -> None:
        await self._shells_for(key)

    async def shell(self, key: AttemptKey, command: ShellCommand) -> Shell:
        return await (await self._shells_for(key)).shell(key, command)

    async def connect(self, key: AttemptKey, port: int) -> Stream:
        return await (await self._shells_for(key)).connect(key, port)

    async def _shells_for(self, key: AttemptKey) -> Shells:
        leader = await self._leading()
        record = leader.active.records.get(key.job)
        if record is None or not is_current(record.job, key):
            raise not_running(key)
        if not isinstance(leader.backend, Shells):
            raise Refused("NotImplementedError", "this backend runs no commands in tasks")
        return leader.backend
