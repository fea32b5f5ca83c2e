"""The code that was sent along with a job: kept for it when it is submitted, found again when a task is launched."""

from __future__ import annotations

from openpai.ports.code import CodeOwner, CodeStore
from openpai.ports.platform import Submitter
from openpai.protocol.code import digest_in
from openpai.protocol.errors import Refused
from openpai.protocol.job import JobSpec


async def hold_code(spec: JobSpec, by: Submitter, job: str, store: CodeStore | None) -> None:
    """Keep the code of a job that is about to be stored. Raise Refused if its owner never sent it."""
    if digest := digest_in(spec.extras):
        await _there(store).hold(CodeOwner(by.user, by.since_ms), digest, job)


def packed_code(spec: JobSpec, store: CodeStore | None) -> str:
    """Return the file with a job's code, empty without one. Raise Refused if it is no longer kept."""
    digest = digest_in(spec.extras)
    return _there(store).pack(digest) if digest else ""


def _there(store: CodeStore | None) -> CodeStore:
    if store is None:
        raise Refused("NoCodeError", "this server keeps no code", "send it through a storage")
    return store
