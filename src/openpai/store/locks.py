"""What keeps two servers from changing the same thing: the row lock of a job, the leader's lease, and locks by name.

The row lock of a job is optimistic: no row is locked while a server derives a change. A change names the version of the
row it started from, and is refused if another server saved the job in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import sqlalchemy as sa

from openpai.access.quotas import Quota
from openpai.ports.store import LeaseLost
from openpai.store.prepared import Prepared
from openpai.store.schema import jobs

LEADER: Final = "leader"
# As text: it is asked with each save, and preparing it takes several times as long as the answer.
_EPOCH: Final = f"SELECT epoch FROM lease WHERE name = '{LEADER}'"  # noqa: S608
# With a share lock, no new leader takes over between this check and the commit that follows it.
_LOCKED_EPOCH: Final = f"{_EPOCH} FOR SHARE"
_TAKE: Final = sa.text("SELECT pg_advisory_xact_lock(key) FROM unnest(CAST(:keys AS bigint[])) AS key")
_CHANGING: Final = (
    "version",
    "phase",
    "virtual_cluster",
    "priority",
    "priority_class",
    "is_stop_requested",
    "attempt",
    "retries_counted",
    "retries_free",
    "attempt_at_ms",
    "attempt_started_at_ms",
    "attempt_ended_at_ms",
    "started_at_ms",
    "ended_at_ms",
    "retry_at_ms",
    "rank",
    "checkpoint_at_ms",
)
_UPDATE_JOB: Final = Prepared(
    sa.update(jobs)
    .where(jobs.c.id == sa.bindparam("of_id"), jobs.c.version == sa.bindparam("of_version"))
    .values({name: sa.bindparam(name) for name in _CHANGING})
)


class StaleJob(Exception):
    """The row of a job is no longer at the version that the change started from."""


def update_jobs(connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Update rows of jobs, each with `of_id` and `of_version`; raise StaleJob if one is at another version."""
    if _UPDATE_JOB.execute(connection, rows) != len(rows):
        raise StaleJob


def check_lease(connection: sa.Connection, epoch: int) -> None:
    """Raise LeaseLost when `epoch` is no longer the newest lease; until the commit, it stays the newest."""
    newest = newest_epoch(connection)
    if newest != epoch:
        raise LeaseLost(f"epoch {epoch} is over, {newest} leads")


def newest_epoch(connection: sa.Connection) -> int | None:
    """Return the newest lease, None before the first."""
    newest = connection.exec_driver_sql(_LOCKED_EPOCH if _is_postgresql(connection) else _EPOCH).scalar()
    return None if newest is None else int(newest)


def quota_lock(owner: str, quotas: Sequence[Quota]) -> str:
    """Return the name of the lock to hold while these quotas are checked, empty if none of them counts jobs."""
    return f"unfinished jobs of {owner}" if any(quota.jobs_unfinished is not None for quota in quotas) else ""


def take_locks(connection: sa.Connection, locks: Iterable[str]) -> None:
    """Wait for the locks of these names; the end of the transaction releases them."""
    names = {lock for lock in locks if lock}
    # SQLite has one writer at a time anyway.
    if names and _is_postgresql(connection):
        # Taken before anything else and in one order everywhere, so that no two servers wait for each other.
        keys = sorted(int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), signed=True) for name in names)
        connection.execute(_TAKE, {"keys": keys})


def _is_postgresql(connection: sa.Connection) -> bool:
    return connection.dialect.name == "postgresql"
