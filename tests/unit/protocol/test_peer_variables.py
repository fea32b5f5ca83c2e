"""The warning about variables of single peers agrees with the environment of a large job."""

from __future__ import annotations

import pytest

from openpai.protocol.reading import read_job
from openpai.runtime.environment import JobEnvironment, JobView, Peer, port_labels
from tests.unit.protocol.jobs import text_of

ABOUT = {"protocolVersion": 2, "name": "large", "type": "job"}
LABELS = {"nccl": 1, "tensorboard": 1}


def warnings_of(instances: int, command: str, ports: dict[str, int]) -> tuple[tuple[str, ...], set[str]]:
    """Return the warnings about a job, and the variables about single peers that its tasks get."""
    resources = {"cpu": 1, "memoryMB": 64, "gpu": 0, "ports": ports}
    role = {"instances": instances, "dockerImage": "i", "resourcePerInstance": resources, "commands": [command]}
    images = [{"type": "dockerimage", "name": "i", "uri": "busybox"}]
    read = read_job(text_of({**ABOUT, "prerequisites": images, "taskRoles": {"worker": role}}))
    (only,) = read.spec.task_roles
    labels = dict.fromkeys(port_labels(only.resources), (34567,))
    peers = tuple(Peer("worker", index, "10.100.100.100", labels) for index in range(instances))
    shared = JobEnvironment(JobView("ann", "j", "default", read.spec.task_roles, peers)).shared
    return tuple(text for text in read.warnings if "PAI_HOSTS_FILE" in text), set(shared)


@pytest.mark.parametrize("ports", [{}, LABELS])
@pytest.mark.parametrize("instances", [100, 400, 3_000])
@pytest.mark.parametrize("index", [0, 50, "last"])
@pytest.mark.parametrize("form", ["PAI_HOST_IP_worker_{}", "PAI_PORT_LIST_worker_{}_http", "PAI_worker_{}_ssh_PORT"])
def test_a_variable_that_is_not_set_is_warned_about(
    ports: dict[str, int], instances: int, index: int | str, form: str
) -> None:
    name = form.format(instances - 1 if index == "last" else index)
    warnings, shared = warnings_of(instances, f"echo ${name}", ports)
    assert bool(warnings) == (name not in shared)
    assert all(name in text for text in warnings)


def test_a_name_put_together_by_the_command_is_warned_about() -> None:
    command = 'eval "host=\\$PAI_HOST_IP_worker_$i"'
    assert warnings_of(3_000, command, {})[0]
    assert not warnings_of(100, command, {})[0]


@pytest.mark.parametrize("command", ["cat $PAI_HOSTS_FILE", "serve $PAI_CONTAINER_SSH_PORT", "true"])
def test_commands_that_need_no_single_peer_are_not_warned_about(command: str) -> None:
    assert not warnings_of(3_000, command, LABELS)[0]
