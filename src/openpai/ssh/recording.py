"""The audit log of the gateway: each session in a task leaves two entries, its begin and its end.

What passes through a session is not recorded. The entries are those of `pai job exec`, with the fingerprint of the key
as the login.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from typing import Any, Self

from openpai.access.ssh_destinations import Destination
from openpai.ports.usage import AuditEntry
from openpai.protocol.errors import Refused
from openpai.protocol.job import owner_and_job
from openpai.ssh.model import Services
from openpai.ssh.rights import ACTION, Reached


@dataclass(frozen=True, slots=True)
class Recorder:
    """Writes entries about one connection, or about one of its sessions."""

    services: Services
    account: str
    fingerprint: str
    address: str
    entry: AuditEntry | None = None
    detail: dict[str, Any] = field(default_factory=dict)

    def of(self, reached: Reached, detail: dict[str, Any]) -> Self:
        """Return what writes about a session in a task."""
        job = reached.job
        about = {"session": secrets.token_hex(4), "task": reached.task, "attempt": reached.key.task_attempt, **detail}
        return replace(self, entry=self._entry(job.full_name, job.user), detail=about)

    async def begin(self) -> None:
        """Write the begin of a session, before a byte passes."""
        if self.entry is not None:
            await self.services.usage.note(replace(self.entry, status=101, detail={**self.detail, "event": "start"}))

    async def end(self, ended_by: str, exit_code: int | None) -> None:
        """Write the end of a session."""
        if self.entry is None:
            return
        now_ms = self.services.clock.now_ms()
        detail = {"event": "end", "seconds": (now_ms - self.entry.at_ms) // 1000, "endedBy": ended_by}
        if exit_code is not None:
            detail["exitCode"] = exit_code
        await self.services.usage.note(replace(self.entry, at_ms=now_ms, status=200, detail={**self.detail, **detail}))

    async def refused(self, to: Destination, error: Refused) -> None:
        """Write that a connection tried to reach a task that it may not."""
        owner, name = owner_and_job(to.job, to.account)
        await self.services.usage.note(replace(self._entry(f"{owner}~{name}", owner), status=error.status))

    def _entry(self, target: str, owner: str) -> AuditEntry:
        now_ms = self.services.clock.now_ms()
        via = f"ssh {self.fingerprint}"
        return AuditEntry(now_ms, self.account, ACTION, target, owner, via=via, address=self.address)
