"""Checks a request to change the number of tasks of a job, and says in words what it changes."""

from __future__ import annotations

from dataclasses import replace

from openpai.lifecycle.model import Job, JobPhase
from openpai.lifecycle.rescaling import Scales, fresh_tasks, removed, rescaled_plan, rescaled_spec, whole_gang
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.submitting import check_runnable
from openpai.ports.store import JobRecord
from openpai.protocol.admission import queue_of
from openpai.protocol.errors import InvalidParameters, Refused, Unavailable
from openpai.protocol.job import TASKS_MAX
from openpai.protocol.wording import plural

NAMED_MAX = 5


def rescaled(found: JobRecord, scales: Scales) -> JobRecord:
    """Return a job with the specification of its new numbers of tasks.

    Raises Refused for numbers that it cannot have, and Unavailable while tasks that it would get again still end.
    """
    if found.job.is_final:
        message = f"job {found.full_name} is over"
        raise Refused("FinishedJobError", message, f"start it again first: pai job start {found.name}")
    if queue := queue_of(found.spec.extras):
        message = f"the Kueue queue {queue} admits job {found.full_name} as it was submitted"
        raise Refused("ConflictJobError", message, "stop it, and submit it with the other number of tasks")
    known = {role.name: role.instances for role in found.spec.task_roles}
    for name in scales:
        if name not in known:
            message = f"job {found.full_name} has no task role {name!r}"
            raise InvalidParameters(message, f"use one of: {', '.join(known)}")
    spec = rescaled_spec(found.spec, scales)
    if spec.tasks_total > TASKS_MAX:
        message = f"job {found.full_name} would have {spec.tasks_total} tasks"
        raise InvalidParameters(message, f"at most {TASKS_MAX} tasks in one job")
    ending = [task.id for task in removed(found.job) if task.is_alive]
    again = [id_ for id_ in ending if id_.role in scales and id_.index < scales[id_.role].instances]
    if again and found.job.outcome is None:
        named = ", ".join(f"{id_.role}-{id_.index}" for id_ in again[:NAMED_MAX])
        message = f"{plural(len(again), 'task')} that job {found.full_name} lost to a smaller number still run: {named}"
        raise Unavailable(message, "try again in a moment, once they have ended")
    return replace(found, spec=spec)


def check_can_run(leader: Leader, found: JobRecord, after: JobRecord) -> None:
    """Raise Refused if a job with its new numbers of tasks could not run even if everything were free."""
    if after.spec.tasks_total > found.spec.tasks_total:
        check_runnable(leader, replace(after, job=_new_attempt(found, after)), ())


def _new_attempt(found: JobRecord, after: JobRecord) -> Job:
    sizes = {role.name: role.instances for role in after.spec.task_roles}
    roles = tuple(replace(role, instances=sizes[role.name]) for role in found.job.plan.roles)
    plan = whole_gang(replace(found.job.plan, roles=roles))
    return replace(found.job, plan=plan, phase=JobPhase.QUEUED, outcome=None, tasks=fresh_tasks(plan))


def changes_in_words(job: Job, scales: Scales) -> str:
    """Return which task role gets how many tasks, as in `worker from 4 to 2`; empty if nothing changes."""
    if rescaled_plan(job, scales) is job.plan:
        return ""
    roles = [(role, scales[role.name].instances) for role in job.plan.roles if role.name in scales]
    return ", ".join(f"{role.name} from {role.instances} to {number}" for role, number in roles)
