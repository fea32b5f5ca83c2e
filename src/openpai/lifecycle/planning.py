"""From what a job file says to what the lifecycle core needs to know of it."""

from __future__ import annotations

from openpai.lifecycle.model import Plan, RolePlan
from openpai.protocol.job import JobSpec


def plan_of(spec: JobSpec) -> Plan:
    """Return the plan of a specification."""
    roles = tuple(
        RolePlan(
            name=role.name,
            instances=role.instances,
            min_failed=role.completion.min_failed,
            min_succeeded=role.completion.min_succeeded,
            task_retry_count=role.task_retry_count,
        )
        for role in spec.task_roles
    )
    return Plan(roles=roles, job_retry_count=spec.job_retry_count, is_gang=spec.is_gang)
