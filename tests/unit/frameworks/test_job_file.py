"""Job files of Frameworks: what becomes of each field, and what is refused."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from openpai.frameworks.job_file import job_file
from openpai.frameworks.objects import Framework, crd
from openpai.frameworks.settings import Grant, read_settings
from openpai.frameworks.shell import constants, lines, word
from openpai.protocol.errors import BadConfiguration, Refused
from openpai.protocol.job import JobSpec
from openpai.protocol.reading import read_job

GRANT = Grant({"ann": Path("ann")}, ("vision", "default"))


def framework(*pods: Any, role: dict[str, Any] | None = None, **spec: Any) -> Framework:
    roles = [
        {
            "name": f"r{number}",
            "taskNumber": 2,
            "frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 0, "minSucceededTaskCount": 2},
            "task": {"retryPolicy": {"fancyRetryPolicy": True, "maxRetryCount": 0}, "pod": pod},
            **(role or {}),
        }
        for number, pod in enumerate(pods)
    ]
    annotations = spec.pop("annotations", {})
    document = {
        "metadata": {"name": "train", "namespace": "team", "uid": "0123-4567-89ab-cdef", "annotations": annotations},
        "spec": {"executionType": "Start", "taskRoles": roles, **spec},
    }
    return msgspec.convert(document, Framework)


def pod(**container: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "ubuntu", "command": ["true"], **container}
    return {"spec": {"restartPolicy": "Never", "containers": [main]}}


def parsed(text: str) -> JobSpec:
    return read_job(text).spec


def refusal(found: Framework) -> str:
    with pytest.raises(Refused) as refused:
        job_file(found, GRANT)
    return refused.value.message


def test_a_framework_becomes_a_job_that_the_platform_reads() -> None:
    resources = {"requests": {"cpu": "500m", "memory": "1G"}, "limits": {"cpu": "1500m", "nvidia.com/gpu": 2}}
    found = framework(
        pod(resources=resources), pod(image="{{FC_FRAMEWORK_NAME}}-{{FC_TASKROLE_NAME}}"),
        retryPolicy={"fancyRetryPolicy": True, "maxRetryCount": 3},
    )  # fmt: skip
    job = parsed(job_file(found, GRANT))
    assert (job.name, job.virtual_cluster, job.job_retry_count, job.is_gang) == (
        "train-0123456789ab",
        "vision",
        3,
        True,
    )
    first, second = job.task_roles
    assert (first.instances, first.completion.min_failed, first.completion.min_succeeded) == (2, -1, 2)
    assert (first.resources.cpus, first.resources.memory_mb, first.resources.gpus) == (2, 954, 2)
    assert (second.resources.cpus, second.resources.memory_mb, second.resources.gpus) == (1, 1024, 0)
    assert json.loads(job_file(found, GRANT))["prerequisites"][1]["uri"] == "train-r1"


def test_tasks_that_are_retried_do_not_wait_for_each_other() -> None:
    retried = {"task": {"retryPolicy": {"fancyRetryPolicy": True, "maxRetryCount": 1}, "pod": pod()}}
    assert not parsed(job_file(framework(pod(), role=retried), GRANT)).is_gang
    together = framework(pod(), role=retried, annotations={"openpai/gang-allocation": "true"})
    assert parsed(job_file(together, GRANT)).is_gang
    assert "neither true nor false" in refusal(framework(pod(), annotations={"openpai/gang-allocation": "yes"}))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ({}, "pod needs a spec"),
        ({"spec": {"restartPolicy": "Never", "containers": [1, 2]}}, "exactly one container"),
        ({"spec": {**pod()["spec"], "restartPolicy": "Always"}}, "restartPolicy is 'Always'; write Never"),
        ({"spec": {**pod()["spec"], "hostNetwork": True}}, "spec.hostNetwork is not supported at this value"),
        ({"spec": {**pod()["spec"], "hostPID": True}}, "spec.hostPID is not supported"),
        ({"spec": {**pod()["spec"], "serviceAccountName": "admin"}}, "serviceAccountName is not supported"),
        ({**pod(), "metadata": {"labels": {"a": "b"}}}, "metadata.labels is not supported"),
        (pod(image="a b"), "image is not the name"),
        (pod(command=None), "command is missing"),
        (pod(command="true"), "command is not a list"),
        (pod(env=[{"name": "A", "valueFrom": {"secretKeyRef": {}}}]), "env[0].valueFrom is not supported"),
        (pod(env=[{"name": "A;rm", "value": ""}]), "env[0].name is not a name"),
        (pod(env="A"), "env[0].name is not a name"),
        (pod(securityContext={"privileged": True}), "securityContext is not supported"),
        (pod(lifecycle={"preStop": {}}), "lifecycle is not supported"),
        (pod(ports=[{"hostPort": 80}]), "hostPort is not supported"),
        (pod(resources={"limits": {"cpu": "many"}}), "limits.cpu: 'many' is not a quantity"),
        (pod(resources={"limits": {"cpu": "-1"}}), "limits.cpu: -1 is negative"),
        (pod(resources={"limits": {"rdma/hca": 1}}), "resource rdma/hca is not supported"),
        (pod(resources={"limits": [1]}), "limits is not a mapping"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_place(template: Any, message: str) -> None:
    assert message in refusal(framework(template))


def test_all_faults_are_in_one_message_of_a_bounded_length() -> None:
    output = refusal(framework(*[pod(command=None, image="")] * 20, retryPolicy={"maxRetryCount": -1}))
    assert "taskRoles[0]" in output
    assert "taskRoles[1]" in output
    assert output.endswith("and 31 more")
    assert "no role with a taskNumber" in refusal(framework(pod(), role={"taskNumber": 0}))


def test_annotations_choose_only_what_the_namespace_is_allowed() -> None:
    chosen = framework(pod(), annotations={"openpai/virtual-cluster": "default", "openpai/user": "ann"})
    assert parsed(job_file(chosen, GRANT)).virtual_cluster == "default"
    assert "'prod' is not allowed" in refusal(framework(pod(), annotations={"openpai/virtual-cluster": "prod"}))
    with pytest.raises(Refused, match="user 'root' is not allowed"):
        GRANT.user_of(framework(pod(), annotations={"openpai/user": "root"}))


PIECES = [*"aB0 $()'\"\\`<%>{}*?~#!&;|\n", "é", "$(A)", "$$", "$(NO)", "{{FC_TASK_INDEX}}"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


@given(TEXTS)
def test_a_word_is_what_kubernetes_makes_of_it_and_no_more(text: str) -> None:
    shell = word(text, {"A", "FC_TASK_INDEX"})
    assert "<%" not in shell
    script = f"A='x y'; FC_TASK_INDEX=7; printf %s {shell}"
    ran = subprocess.run(["bash", "-eu", "-c", script], capture_output=True, text=True, check=True, timeout=20)
    assert ran.stdout == _expanded(text)


def _expanded(text: str) -> str:
    """Replace in one pass from the left, with another method than the code under test."""
    found, at = "", 0
    values = {"$$": "$", "$(A)": "x y", "{{FC_TASK_INDEX}}": "7"}
    while at < len(text):
        key = next((key for key in values if text.startswith(key, at)), None)
        found += values[key] if key else text[at]
        at += len(key) if key else 1
    return found


def test_variables_of_a_container_are_set_in_order() -> None:
    env = [("NAME", "{{FC_POD_NAME}}"), ("BOTH", "$(NAME) $(LATER) it's"), ("LATER", "x")]
    script = lines(
        constants("team", "train", "worker"), env, "/tmp", ["bash", "-c", 'echo "$BOTH $PWD $0"', "$(LATER)"]
    )
    ran = subprocess.run(
        ["bash", "-e", "-c", "\n".join(script)], capture_output=True, text=True, check=True, timeout=20,
        env={"PATH": "/usr/bin:/bin", "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": "4"},
    )  # fmt: skip
    assert ran.stdout == "train-worker-4 $(LATER) it's /tmp x\n"


def test_settings_refuse_what_is_not_said_clearly() -> None:
    place = Path("/etc/pai")
    text = "namespaces: {a: {users: {ann: t}, virtualClusters: [x]}, b: {users: {ann: t}}}"
    found = read_settings(text, place)
    assert found["a"] == Grant({"ann": place / "t"}, ("x",))
    assert found["b"].virtual_clusters == ("default",)
    for wrong in (
        "", "[", "namespaces: {}", "namespaces: {a: {users: {}}}", "namespaces: {a: {users: {ann: 1}}}", "other: 1",
        "namespaces: {a: {users: {ann: t}, virtualClusters: []}}", "namespaces: {a: {users: {ann: t}, admin: true}}",
        "namespaces: {a: {users: {ann: t}}, b: {users: {ann: u}}}",
    ):  # fmt: skip
        with pytest.raises(BadConfiguration):
            read_settings(wrong, place)


def test_the_definition_is_of_the_kind_that_is_read() -> None:
    definition = yaml.safe_load(crd())
    assert definition["metadata"]["name"] == "frameworks.frameworkcontroller.microsoft.com"
    assert definition["spec"]["versions"][0]["subresources"] == {"status": {}}
