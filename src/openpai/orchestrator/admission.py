"""Jobs that a queue of the cluster admits: asked for while they are held, released, and taken back.

Each attempt of such a job begins held. It is released as long as the job is admitted, so retries keep their admission.
What a queue takes back is preempted, waits for its admission again, and keeps its place there.
"""

from __future__ import annotations

from typing import Final

from openpai.lifecycle.facts import AdmissionLost
from openpai.lifecycle.model import JobPhase
from openpai.orchestrator import gangs
from openpai.orchestrator.changes import JobUpdate
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.recording import change_jobs
from openpai.ports.admission import AdmissionState, AdmitsJobs
from openpai.ports.store import JobRecord
from openpai.protocol.admission import queue_of
from openpai.scheduler.model import Wait, Why

_LOST: Final = {
    AdmissionState.EVICTED: "it was evicted",
    AdmissionState.GONE: "its Workload was deleted",
    AdmissionState.WAITING: "its Workload is not admitted",
}
"""What a job that was released has lost its admission by."""


def is_admitted(leader: Leader, found: JobRecord) -> bool:
    """Return whether a held job may go to the scheduler; ask for it to be admitted if it may not yet."""
    admits, asked = leader.admits, gangs.admission_request(found)
    if asked is None or admits is None:
        return True
    admits.request_admission(asked)
    return admits.admission(found.job.id).state is AdmissionState.ADMITTED


async def heed_admissions(leader: Leader, admits: AdmitsJobs) -> None:
    """Wait for news of admissions, and act on them: release jobs, take them back, and withdraw those that are over."""
    check = leader.active.admissions_to_check
    if not check:
        check.update(dict.fromkeys(await admits.admission_news()))
    lost: dict[str, JobUpdate] = {}
    for id_ in list(check):
        found, admission = leader.active.records.get(id_), admits.admission(id_)
        if found is None:
            admits.withdraw_admission(id_)
        elif found.job.phase is JobPhase.HELD:
            leader.active.hold(found)
            leader.nudges.work.set()
        elif found.job.phase is JobPhase.BACKING_OFF:
            # It holds nothing: what others need of its quota is given back now, and not when it is tried again.
            is_admitted(leader, found)
        elif admission.state in _LOST:
            reason = admission.message or _LOST[admission.state]
            why = f"the queue {queue_of(found.spec.extras)} of Kueue took its admission back: {reason}"
            lost[id_] = JobUpdate((AdmissionLost(leader.clock.now_ms(), why),))
    if lost:
        await change_jobs(leader, lost)
    check.clear()


def waits_for_admission(leader: Leader, found: JobRecord) -> tuple[Wait, ...]:
    """Return why a held job is not admitted yet; empty if it is, or if no queue has to."""
    admits, queue = leader.admits, queue_of(found.spec.extras)
    if not queue or admits is None:
        return ()
    state, reason = admits.admission(found.job.id)
    if state is AdmissionState.ADMITTED:
        return ()
    message = f"the queue {queue} of Kueue has not admitted it{f': {reason}' if reason else ''}"
    advice = "wait, or submit it to a virtual cluster that Kueue does not admit"
    return (Wait(f"{found.job.id}/{found.job.attempt}", Why.WAITS_FOR_ADMISSION, message, advice),)
