"""The pass that learns from the backend when running jobs saved their work, so that less counts as lost.

A job that reports its checkpoints itself (`pai job checkpoint`) is believed if that was later. The newest file of any
of its tasks counts: usually one task of a gang writes for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from openpai.lifecycle.actions import is_current
from openpai.lifecycle.model import AttemptKey
from openpai.orchestrator.changes import JobUpdate
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.recording import change_jobs
from openpai.ports.backend import SeesCheckpoints
from openpai.ports.store import JobRecord

NEWER_MS: Final = 5_000
"""Checkpoints that are closer together are not saved each."""
JOBS_PER_PASS: Final = 200


async def note_checkpoints(leader: Leader) -> None:
    """Save for each job when the newest of its checkpoints was written, if that is news."""
    if not isinstance(leader.backend, SeesCheckpoints):
        return
    newest = newest_of(leader.active.records, await leader.backend.checkpoints())
    news = sorted(newest.items(), key=lambda found: found[1])[:JOBS_PER_PASS]
    if news:
        await change_jobs(leader, {job: JobUpdate(amend=partial(_saved, at_ms=at_ms)) for job, at_ms in news})


def newest_of(records: Mapping[str, JobRecord], seen: Mapping[AttemptKey, int]) -> dict[str, int]:
    """Return the time of the newest checkpoint of each job for which it is news."""
    newest: dict[str, int] = {}
    for key, at_ms in seen.items():
        found = records.get(key.job)
        if found is None or not is_current(found.job, key):
            continue
        if at_ms >= (found.checkpoint_at_ms or 0) + NEWER_MS:
            newest[key.job] = max(at_ms, newest.get(key.job, 0))
    return newest


def _saved(found: JobRecord, at_ms: int) -> JobRecord:
    return replace(found, checkpoint_at_ms=max(at_ms, found.checkpoint_at_ms or 0))
