"""Sweeps of jobs: made in one transaction, and released a few at a time.

Nothing about a sweep is stored but what its jobs say of it. How many of them run is counted among the active jobs, so
it is right again after a restart or a takeover.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable

from openpai.access.quotas import Quota
from openpai.lifecycle.model import JobPhase
from openpai.orchestrator.leader import Leader
from openpai.ports.platform import SubmittedSweep, Submitter
from openpai.ports.store import Event, JobRecord, JobStore, NewJob
from openpai.protocol.errors import Refused
from openpai.protocol.job import JobSpec
from openpai.protocol.sweeps import jobs_of, membership_of, tags_of
from openpai.protocol.writing import dump_masked

SweepKey = tuple[str, str, str]


def digest_of(text: bytes) -> str:
    """Return what a repeated submission of a sweep is recognised by."""
    return hashlib.sha256(text).hexdigest()[:16]


def key_of(record: JobRecord) -> SweepKey | None:
    """Return the sweep whose limit on running jobs holds for a job."""
    found = membership_of(record.spec.extras)
    return (record.user, found.sweep, found.digest) if found is not None and found.max_running else None


def waiting_name(key: SweepKey) -> str:
    """Return the name under which held jobs of a sweep wait for others of it to end; no job has it as its id."""
    return "sweep " + "~".join(key)


class Turns:
    """Counts how many more jobs of each sweep may run."""

    def __init__(self, leader: Leader, held: Iterable[JobRecord]) -> None:
        wanted = {key for found in held if (key := key_of(found)) is not None}
        self._running: Counter[SweepKey] = Counter()
        if not wanted:
            return
        for found in leader.active.records.values():
            if found.job.phase is not JobPhase.HELD and (key := key_of(found)) in wanted and key is not None:
                self._running[key] += 1

    def take(self, record: JobRecord) -> bool:
        """Return whether a held job may be queued now as far as its sweep is concerned, and count it if so."""
        key = key_of(record)
        if key is None:
            return True
        if self._running[key] >= limit_of(record):
            return False
        self._running[key] += 1
        return True


def limit_of(record: JobRecord) -> int:
    """Return how many jobs of a job's sweep may run at a time; 0 for no limit."""
    found = membership_of(record.spec.extras)
    return found.max_running if found is not None else 0


def sweep_jobs(
    by: Submitter, sweep: JobSpec, quotas: tuple[Quota, ...], new_record: Callable[[Submitter, JobSpec], JobRecord]
) -> list[NewJob]:
    """Return the jobs of a sweep, ready to be stored; the first one has the key and the audit entry of all."""
    found: list[NewJob] = []
    for spec in jobs_of(sweep):
        record = new_record(by, spec)
        message = f"{by.user} submitted the job as a part of sweep {sweep.name}"
        event = Event(record.job.id, record.job.submitted_at_ms, "Submitted", message, 0)
        member = membership_of(spec.extras)
        tags = tags_of(member) if member is not None else ()
        key, audit = (by.idempotency_key, by.audit) if not found else ("", None)
        found.append(NewJob(record, dump_masked(spec), spec.gpus_total, event, key, audit, quotas, tags))
    return found


async def sweep_again(store: JobStore, by: Submitter, digest: str, job: str) -> SubmittedSweep:
    """Return the sweep that was submitted under a key; raise ConflictJobError if that was another file."""
    first = await store.load(job)
    if first is None:
        raise Refused("NoJobError", "the sweep that was submitted under this key was deleted")
    found = membership_of(first.spec.extras)
    if found is None or found.digest != digest:
        message = f"{first.user} used this idempotency key for another file, which became job {first.full_name}"
        raise Refused("ConflictJobError", message, "give each submission a key of its own")
    names = tuple([f"{found.sweep}-{number}" for number in range(1, found.count + 1)])
    return SubmittedSweep(by.user, found.sweep, names)
