"""Limits on the environment variables about single peers, and warnings for commands that need more.

Every program that a task starts gets a copy of its environment, so the variables about single peers have a limit; the
file that `PAI_HOSTS_FILE` names has every task.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from openpai.protocol.findings import Finding
from openpai.protocol.job import JobSpec, TaskRole
from openpai.protocol.parsing import Path

PEERS_BYTES_MAX: Final = 384 << 10
"""The variables about single peers are set for all tasks up to this total size."""
FIRST_PEERS_BYTES: Final = 32 << 10
"""In a larger job they are set for the first tasks of each role, up to this total size."""
_ADDRESS: Final = "10.100.100.100"
_PORT_LENGTH: Final = 6
_POINTER_BYTES: Final = 8
_NAMED: Final = re.compile(r"PAI_(?:HOST_IP|PORT_LIST)_\w*|PAI_\w+_PORT\b")
_INDEX: Final = re.compile(r"_(\d+)(?:_|$)")


def missing_peers(spec: JobSpec) -> Iterator[Finding]:
    """Yield warnings for commands that use a variable that is probably not set in so large a job."""
    # Most commands name none, and all job files come here.
    if not any("PAI_" in command for role in spec.task_roles for command in role.commands):
        return
    sizes = [(role.instances, _bytes_of_one(role)) for role in spec.task_roles]
    if sum(instances * size for instances, size in sizes) <= PEERS_BYTES_MAX:
        return
    given = FIRST_PEERS_BYTES // max(1, sum(size for _, size in sizes))
    tasks = sum(instances for instances, _ in sizes)
    for role in spec.task_roles:
        for at, command in enumerate(role.commands):
            name = next((name for name in _NAMED.findall(command) if not _is_among(name, given)), None)
            if name is not None:
                path: Path = ("taskRoles", role.name, "commands", at)
                text = f"{name} may not be set: a job of {tasks} tasks has such variables for about the first {given}"
                yield Finding(path, f"{text} tasks of each role only; the file $PAI_HOSTS_FILE lists every task")
                break


def _is_among(name: str, given: int) -> bool:
    # PAI_CONTAINER_..., which is about the task itself, has no index and is always set.
    found = _INDEX.search(name)
    return name.startswith("PAI_CONTAINER_") or (found is not None and int(found[1]) < given)


def _bytes_of_one(role: TaskRole) -> int:
    """Return an estimate of the bytes of the variables about one task of a role."""
    name, ports = f"{role.name}_{role.instances}", {"ssh": 1, "http": 1, **role.resources.ports}
    size = len(f"PAI_HOST_IP_{name}={_ADDRESS}") + 1 + _POINTER_BYTES
    for label, count in ports.items():
        names = len(f"PAI_PORT_LIST_{name}_{label}=PAI_{name}_{label}_PORT=")
        size += names + 2 * (max(1, count) * _PORT_LENGTH + 1 + _POINTER_BYTES)
    is_spelled_twice = re.search(r"[^a-z0-9]", role.name) is not None
    return size * (1 + is_spelled_twice)
