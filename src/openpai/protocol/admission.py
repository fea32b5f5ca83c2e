"""The Kueue queue that admits a job: `extras.kueue`, as a submission completes it, and the setting it follows from."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from openpai.protocol.errors import BadConfiguration, Fault, InvalidProtocol
from openpai.protocol.job import JobSpec
from openpai.protocol.spelling import nearest
from openpai.protocol.wording import listed

_QUEUE: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
ROLES_MAX: Final = 8
"""A Workload of Kueue has no more pod sets (kueue.x-k8s.io/v1beta1)."""


def queues_in(text: str | None) -> dict[str, str]:
    """Return the LocalQueues of `VIRTUAL-CLUSTER=QUEUE,...`. Raises Refused for anything else."""
    pairs = [pair.partition("=") for pair in (text or "").replace(",", " ").split()]
    for name, equals, queue in pairs:
        if not name or not _QUEUE.fullmatch(queue):
            message = f"{name}{equals}{queue} is no virtual cluster with its LocalQueue"
            raise BadConfiguration(message, "write virtual-cluster=local-queue, with commas between several")
    queues = {name: queue for name, _, queue in pairs}
    for name, _, queue in pairs:
        if queues[name] != queue:
            message = f"virtual cluster {name} has two LocalQueues, {queue} and {queues[name]}"
            raise BadConfiguration(message, "name one; several virtual clusters may have the same")
    return queues


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


def queues_of_nobody(queues: Mapping[str, str], virtual_clusters: Collection[str]) -> tuple[str, ...]:
    """Return a sentence for each virtual cluster that has a queue and does not exist.

    Where another one was meant, the platform's own queue admits that one's jobs.
    """
    return tuple(
        f"--kueue-queues gives virtual cluster {name!r} the queue {queue}, and there is no such virtual cluster"
        + (f"; did you mean {near!r}?" if (near := nearest(name, sorted(virtual_clusters))) else "")
        for name, queue in sorted(queues.items())
        if name not in virtual_clusters
    )


def _not_admitted(spec: JobSpec, queues: Mapping[str, str]) -> tuple[str, None, str]:
    asked, own = queue_of(spec.extras), queues.get(spec.virtual_cluster)
    others = sorted(name for name, queue in queues.items() if queue == asked)
    by = f"the Kueue queue {own!r}" if own else "the platform's own queue"
    message = f"jobs of virtual cluster {spec.virtual_cluster!r} are admitted by {by}"
    instead = f", or the virtual cluster {listed(others)}" if others else ""
    return message, None, f"{f'queue: {own}' if own else 'no `kueue`'}{instead}"
