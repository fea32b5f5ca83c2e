"""The Kueue queue that admits a job: `extras.kueue`, as a submission completes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from openpai.protocol.errors import Fault, InvalidProtocol
from openpai.protocol.job import JobSpec
from openpai.protocol.wording import listed

ROLES_MAX: Final = 8
"""A Workload of Kueue has no more pod sets (kueue.x-k8s.io/v1beta1)."""


def queue_of(extras: Mapping[str, Any]) -> str:
    """Return the LocalQueue that admits a job; empty if the platform's own queue does."""
    about = extras.get("kueue")
    return str(about.get("queue") or "") if isinstance(about, Mapping) else ""


def with_queue(spec: JobSpec, queues: Mapping[str, str]) -> JobSpec:
    """Return the job with the LocalQueue that admits the jobs of its virtual cluster.

    Raises InvalidProtocol for a job that names another one, or that Kueue cannot admit.
    """
    asked, queue = queue_of(spec.extras), queues.get(spec.virtual_cluster, "")
    if asked and asked != queue:
        raise InvalidProtocol((Fault("extras.kueue.queue", *_not_admitted(spec, queues)),))
    if not queue:
        return spec
    if len(spec.task_roles) > ROLES_MAX:
        message = f"Kueue admits the jobs of virtual cluster {spec.virtual_cluster}, and at most {ROLES_MAX} task roles"
        raise InvalidProtocol(
            (Fault("taskRoles", message, None, f"{ROLES_MAX} task roles, or another virtual cluster"),)
        )
    return replace(spec, extras={**spec.extras, "kueue": {"queue": queue}})


def _not_admitted(spec: JobSpec, queues: Mapping[str, str]) -> tuple[str, None, str]:
    asked, own = queue_of(spec.extras), queues.get(spec.virtual_cluster)
    others = sorted(name for name, queue in queues.items() if queue == asked)
    by = f"the Kueue queue {own!r}" if own else "the platform's own queue"
    message = f"jobs of virtual cluster {spec.virtual_cluster!r} are admitted by {by}"
    instead = f", or the virtual cluster {listed(others)}" if others else ""
    return message, None, f"{f'queue: {own}' if own else 'no `kueue`'}{instead}"
