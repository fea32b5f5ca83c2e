"""The job file of a Framework. What cannot be honoured is refused, with all faults in one message."""

from __future__ import annotations

import json
from typing import Any, Final

from openpai.frameworks.objects import Framework, RetryPolicy, TaskRole, job_name
from openpai.frameworks.pods import Container, read_pod
from openpai.frameworks.settings import GANG, Grant
from openpai.frameworks.shell import constants, lines, placed
from openpai.protocol.errors import Refused

FAULTS_MAX: Final = 10


def job_file(framework: Framework, grant: Grant) -> str:
    """Return the job file; raise Refused with what the platform cannot do, or the namespace does not allow."""
    spec = framework.spec
    faults: list[str] = []
    images: dict[str, str] = {}
    roles = {
        role.name: _role(framework, role, f"spec.taskRoles[{number}]", images, faults)
        for number, role in enumerate(spec.task_roles)
        if role.task_number > 0
    }
    retries = _retries(spec.retry_policy, "spec.retryPolicy", faults)
    if not roles:
        faults.append("spec.taskRoles has no role with a taskNumber above 0")
    document: dict[str, Any] = {
        "protocolVersion": 2,
        "name": job_name(framework),
        "type": "job",
        "description": spec.description or f"Framework {framework.namespace}/{framework.name}",
        "jobRetryCount": retries,
        "prerequisites": [
            {"type": "dockerimage", "name": name, "protocolVersion": 2, "uri": image} for image, name in images.items()
        ],
        "taskRoles": roles,
        "defaults": {"virtualCluster": grant.virtual_cluster_of(framework)},
        "extras": {"gangAllocation": _is_gang(framework, faults), "submitFrom": "framework"},
    }
    if faults:
        raise _refusal(faults)
    return json.dumps(document, ensure_ascii=False)


def _role(framework: Framework, role: TaskRole, path: str, images: dict[str, str], faults: list[str]) -> dict[str, Any]:
    container = read_pod(role.task.pod, f"{path}.task.pod", faults)
    fixed = constants(framework.namespace, framework.name, role.name)
    image = images.setdefault(placed(container.image, fixed), f"image{len(images)}")
    policy = role.framework_attempt_completion_policy
    return {
        "instances": role.task_number,
        "dockerImage": image,
        "taskRetryCount": _retries(role.task.retry_policy, f"{path}.task.retryPolicy", faults),
        "completion": {
            "minFailedInstances": minimum(policy.min_failed_task_count),
            "minSucceededInstances": minimum(policy.min_succeeded_task_count),
        },
        "resourcePerInstance": _resources(container),
        "commands": lines(fixed, container.env, container.directory, container.command),
    }


def _resources(container: Container) -> dict[str, int]:
    return {"cpu": container.cpus, "memoryMB": container.memory_mb, "gpu": container.gpus}


def minimum(count: int) -> int:
    """Return a minimum of a completion policy as job files write it."""
    # FrameworkController accepts 0, which acts as -1.
    return count if count >= 1 else -1


def _retries(policy: RetryPolicy, path: str, faults: list[str]) -> int:
    if policy.max_retry_count < 0:
        faults.append(f"{path}.maxRetryCount is {policy.max_retry_count}, without end; write a number from 0 on")
    return max(0, policy.max_retry_count)


def _is_gang(framework: Framework, faults: list[str]) -> bool:
    """Return whether all tasks start together: unless asked otherwise, if no task is retried by itself."""
    chosen = framework.metadata.annotation(GANG)
    if chosen not in ("", "true", "false"):
        faults.append(f"annotation {GANG} is neither true nor false")
    retried = any(role.task.retry_policy.max_retry_count > 0 for role in framework.spec.task_roles)
    return chosen == "true" if chosen else not retried


def _refusal(faults: list[str]) -> Refused:
    more = f"; and {len(faults) - FAULTS_MAX} more" if len(faults) > FAULTS_MAX else ""
    message = "; ".join(faults[:FAULTS_MAX]) + more
    return Refused("InvalidProtocolError", message, "correct the object and apply it again")
