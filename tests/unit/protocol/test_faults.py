"""Each kind of fault is reported with its place, its line, what is allowed and what was probably meant."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from openpai.protocol.errors import InvalidProtocol
from openpai.protocol.findings import FAULTS_MAX
from openpai.protocol.reading import read_job
from openpai.protocol.schema import json_schema
from openpai.protocol.schema_findings import PATTERNS
from openpai.protocol.spelling import nearest

from .jobs import faults_in, job, job_with_worker, only_fault, text_of

MANY = """\
protocolVersion: 3
name: my job
type: jobb
retryCount: 2
prerequisites:
  - type: docker
    name: a
  - type: dockerimage
    name: img
    uri: python
    image: x
  - {type: dockerimage, name: img, uri: y}
taskRoles:
  worker:
    instances: 0
    dockerImage: imgg
    comands: [a]
    resourcePerInstance:
      cpu: "4"
      memoryMb: 8
      gpu: true
    completion: {minFailedInstances: -3}
  w-2:
    dockerImage: img
    commands: [true]
    resourcePerInstance: {cpu: 0, memoryMB: 0, gpu: -1, ports: {1a: 0}}
defaults: {deployment: prd}
extras:
  gangAllocation: "no"
"""


def test_all_faults_come_in_one_answer_in_the_order_of_the_file() -> None:
    message = [(fault.line, fault.path, fault.suggestion) for fault in faults_in(MANY)]
    assert message == [
        (1, "protocolVersion", ""),
        (2, "name", "my_job"),
        (3, "type", "job"),
        (4, "retryCount", "jobRetryCount"),
        (6, "prerequisites[0].type", "dockerimage"),
        (11, "prerequisites[1].image", ""),
        (12, "prerequisites[2].name", ""),
        (14, "taskRoles.worker.commands", ""),
        (15, "taskRoles.worker.instances", ""),
        (16, "taskRoles.worker.dockerImage", "img"),
        (17, "taskRoles.worker.comands", "commands"),
        (18, "taskRoles.worker.resourcePerInstance.memoryMB", ""),
        (19, "taskRoles.worker.resourcePerInstance.cpu", "4"),
        (20, "taskRoles.worker.resourcePerInstance.memoryMb", "memoryMB"),
        (21, "taskRoles.worker.resourcePerInstance.gpu", ""),
        (22, "taskRoles.worker.completion.minFailedInstances", ""),
        (23, "taskRoles.w-2", "w_2"),
        (25, "taskRoles.w-2.commands[0]", '"true"'),
        (26, "taskRoles.w-2.resourcePerInstance.cpu", ""),
        (26, "taskRoles.w-2.resourcePerInstance.memoryMB", ""),
        (26, "taskRoles.w-2.resourcePerInstance.gpu", ""),
        (26, "taskRoles.w-2.resourcePerInstance.ports.1a", "_1a"),
        (26, "taskRoles.w-2.resourcePerInstance.ports.1a", ""),
        (27, "defaults.deployment", ""),
        (29, "extras.gangAllocation", "false"),
    ]
    assert all(fault.allowed for fault in faults_in(MANY))


def test_the_error_carries_the_faults_for_people_and_for_programs() -> None:
    with pytest.raises(InvalidProtocol) as caught:
        read_job(text_of(job(name="my job")))
    error = caught.value
    assert (error.code, error.status) == ("InvalidProtocolError", 400)
    assert "line 2: name: must not be" in error.message
    assert error.as_dict()["faults"] == [
        {
            "path": "name",
            "line": 2,
            "message": 'must not be the text "my job"',
            "allowed": "letters, digits, _ and -",
            "suggestion": "my_job",
        }
    ]


@pytest.mark.parametrize("key", ["protocolVersion", "name", "type", "taskRoles"])
def test_a_missing_key_of_the_job_is_a_fault(key: str) -> None:
    document = job()
    del document[key]
    fault = faults_in(document)[0]
    assert (fault.path, fault.line, fault.message) == (key, None, "is missing")


@pytest.mark.parametrize("key", ["dockerImage", "resourcePerInstance", "commands"])
def test_a_missing_key_of_a_task_role_names_the_roles_line(key: str) -> None:
    document = job_with_worker(**{key: None})
    fault = only_fault(document)
    line = text_of(document).splitlines().index("  worker:") + 1
    assert (fault.path, fault.line, fault.message) == (f"taskRoles.worker.{key}", line, "is missing")


@pytest.mark.parametrize(
    ("changes", "path", "allowed"),
    [
        ({"name": "x" * 256}, "name", "at most 255 characters"),
        ({"name": "a/b"}, "name", "letters, digits, _ and -"),
        ({"name": 7}, "name", "text"),
        ({"jobRetryCount": -1}, "jobRetryCount", "a whole number, at least 0"),
        ({"jobRetryCount": 1.5}, "jobRetryCount", "a whole number"),
        ({"jobRetryCount": "many"}, "jobRetryCount", "a whole number"),
        ({"version": True}, "version", "text or a number"),
        ({"description": ["x"]}, "description", "text"),
        ({"parameters": ["x"]}, "parameters", "a mapping of keys to values"),
        ({"secrets": "******"}, "secrets", "the secrets themselves"),
        ({"secrets": {"a": "******"}}, "secrets.a", "the secret itself"),
        ({"taskRoles": {}}, "taskRoles", "at least one"),
        ({"deployments": {}}, "deployments", "a list"),
        ({"deployments": [{"name": "a", "taskRoles": {}}] * 2}, "deployments[1].name", "one name for each deployment"),
        ({"deployments": [{"name": "a", "taskRoles": {"wrker": {}}}]}, "deployments[0].taskRoles.wrker", "worker"),
        ({"deployments": [{"name": "a"}]}, "deployments[0].taskRoles", "Commands for each task role"),
        ({"defaults": {"deployment": "a"}}, "defaults.deployment", "none"),
        ({"defaults": {"virtualCluster": 3}}, "defaults.virtualCluster", "text"),
        ({"extras": []}, "extras", "a mapping of keys to values"),
        ({"extras": {"gangAllocation": "false"}}, "extras.gangAllocation", "true or false"),
        ({"extras": {"storages": [{"name": 3}]}}, "extras.storages[0].name", "text"),
    ],
)
def test_faults_of_the_job(changes: dict[str, Any], path: str, allowed: str) -> None:
    document = job(**changes)
    fault = only_fault(document)
    assert (fault.path, fault.allowed) == (path, allowed)
    assert fault.line is not None


@pytest.mark.parametrize(
    ("changes", "path", "allowed"),
    [
        ({"instances": 0}, "instances", "a whole number, at least 1"),
        ({"instances": 10_001}, "instances", "a whole number, at most 10000"),
        ({"instances": True}, "instances", "a whole number"),
        ({"taskRetryCount": -2}, "taskRetryCount", "a whole number, at least 0"),
        ({"dockerImage": "imge"}, "dockerImage", "image"),
        ({"data": "image"}, "data", "pictures"),
        ({"output": "nowhere"}, "output", "results"),
        ({"script": "pictures"}, "script", "trainer"),
        ({"prerequisites": ["image", "x"]}, "prerequisites[1]", "image, pictures, trainer, results"),
        ({"commands": []}, "commands", "at least one"),
        ({"commands": "python"}, "commands", "a list"),
        ({"commands": ["a", 5]}, "commands[1]", "text"),
        (
            {"completion": {"minSucceededInstances": -2}},
            "completion.minSucceededInstances",
            "-1 for never, or a whole number, at least 1",
        ),
        ({"extraContainerOptions": {"shmMB": 0}}, "extraContainerOptions.shmMB", "a whole number, at least 1"),
        ({"extraContainerOptions": {"infiniband": 1}}, "extraContainerOptions.infiniband", "true or false"),
        ({"protocolVersion": 1}, "protocolVersion", "2"),
    ],
)
def test_faults_of_a_task_role(changes: dict[str, Any], path: str, allowed: str) -> None:
    document = job_with_worker(**changes)
    fault = only_fault(document)
    assert (fault.path, fault.allowed) == (f"taskRoles.worker.{path}", allowed)
    key = path.partition("[")[0].rpartition(".")[2]
    lines = text_of(document).splitlines()
    assert fault.line is not None
    assert key in lines[fault.line - 1] or lines[fault.line - 1].lstrip().startswith("-")


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("cpu", 0, "a whole number, at least 1"),
        ("cpu", 0.5, "a whole number"),
        ("cpu", True, "a whole number"),
        ("memoryMB", 0, "a whole number, at least 1"),
        ("memoryMB", "8 GB", "a whole number"),
        ("memoryMB", 2**40, "a whole number, at most 2147483647"),
        ("gpu", -1, "a whole number, at least 0"),
        ("ports", {"a": 0}, "a whole number, at least 1"),
        ("ports", {"a-b": 1}, "letters, digits and _, not beginning with a digit"),
        ("disk", 1, "cpu, memoryMB, gpu, ports"),
    ],
)
def test_faults_of_resources(key: str, value: Any, allowed: str) -> None:
    fault = only_fault(job_with_worker(resourcePerInstance={"cpu": 1, "memoryMB": 1, "gpu": 0, key: value}))
    assert fault.path.startswith(f"taskRoles.worker.resourcePerInstance.{key}")
    assert fault.allowed == allowed


@pytest.mark.parametrize(
    ("entry", "path", "allowed"),
    [
        ({"name": "x"}, "type", "dockerimage, data, script, output"),
        ({"type": "image", "name": "x"}, "type", "dockerimage, data, script, output"),
        ({"type": "data", "uri": []}, "name", "The name by which task roles refer to it"),
        ({"type": "data", "name": "x", "uri": "http://here"}, "uri", "a list"),
        ({"type": "script", "name": "x", "uri": ["a"]}, "uri", "text"),
        ({"type": "dockerimage", "name": "x"}, "uri", "The image, with its registry and tag"),
        ({"type": "dockerimage", "name": "x", "uri": "a b"}, "uri", "text without blanks"),
        (
            {"type": "dockerimage", "name": "x", "uri": "a", "auth": {"user": "b"}},
            "auth.user",
            "username, password, registryuri",
        ),
        (
            {"type": "dockerimage", "name": "x", "uri": "a", "auth": {"password": "******"}},
            "auth.password",
            "a reference to a secret",
        ),
        ({"type": "dockerimage", "name": "image", "uri": "a"}, "name", "one name for each prerequisite of a type"),
        (
            {"type": "script", "name": "x", "require": ["pictures", "y"]},
            "require[1]",
            "image, pictures, trainer, results, x",
        ),
        ("image", "", "a mapping of keys to values"),
    ],
)
def test_faults_of_a_prerequisite(entry: Any, path: str, allowed: str) -> None:
    document = job()
    document["prerequisites"].append(entry)
    fault = only_fault(document)
    assert (fault.path, fault.allowed) == (f"prerequisites[4]{'.' if path else ''}{path}", allowed)


@pytest.mark.parametrize(
    ("hived", "path"),
    [
        ({"jobPriorityClass": "high"}, "jobPriorityClass"),
        ({"taskRoles": {"wrker": {"skuType": "a"}}}, "taskRoles.wrker"),
        ({"taskRoles": {"worker": {"skuType": "a", "pinnedCellId": "b"}}}, "taskRoles.worker.pinnedCellId"),
        ({"taskRoles": {"worker": {"skuNum": "two"}}}, "taskRoles.worker.skuNum"),
        ({"gangReleaseEnable": "yes"}, "gangReleaseEnable"),
    ],
)
def test_faults_of_settings_for_the_scheduler(hived: dict[str, Any], path: str) -> None:
    assert only_fault(job(extras={"hivedScheduler": hived})).path == f"extras.hivedScheduler.{path}"


def test_roles_of_one_affinity_group_want_the_same_hardware() -> None:
    document = job()
    document["taskRoles"]["other"] = document["taskRoles"]["worker"]
    commands = {
        "worker": {"skuType": "a", "affinityGroupName": "g"},
        "other": {"skuType": "b", "affinityGroupName": "g"},
    }
    document["extras"] = {"hivedScheduler": {"taskRoles": commands}}
    fault = only_fault(document)
    assert fault.path == "extras.hivedScheduler.taskRoles.other.affinityGroupName"
    commands["other"]["skuType"] = "a"
    assert read_job(text_of(document)).spec.extras["hivedScheduler"]["taskRoles"] == commands


@pytest.mark.parametrize("name", ["crit", "prod", "test", "oppo"])
def test_every_priority_class_is_accepted(name: str) -> None:
    spec = read_job(text_of(job(extras={"hivedScheduler": {"jobPriorityClass": name}}))).spec
    assert spec.extras["hivedScheduler"]["jobPriorityClass"] == name


def test_the_tasks_of_all_roles_together_are_bounded() -> None:
    document = job_with_worker(instances=6000)
    document["taskRoles"]["other"] = document["taskRoles"]["worker"]
    assert only_fault(document).message == "ask for 12000 tasks together"


def test_what_might_be_a_password_is_never_repeated() -> None:
    document = job(secrets=4711)
    document["prerequisites"][0]["auth"] = {"password": 123456}
    message = " ".join(fault.describe() for fault in faults_in(document))
    assert "auth.password: must be text" in message
    assert "123456" not in message
    assert "4711" not in message


def test_a_hopeless_file_gets_no_more_faults_than_a_person_would_read() -> None:
    faults = faults_in(job(**{f"unknown{index}": 1 for index in range(500)}))
    assert len(faults) == FAULTS_MAX + 1
    assert faults[-1].message.startswith("and more faults")


@pytest.mark.parametrize(
    ("word", "meant"),
    [("comands", "commands"), ("retrys", "jobRetryCount"), ("NAME", "name"), ("image", "dockerImage"), ("zzz", "")],
)
def test_the_nearest_legal_word_is_found(word: str, meant: str) -> None:
    assert nearest(word, ["commands", "jobRetryCount", "name", "dockerImage", "extras"]) == meant


@pytest.mark.parametrize(
    ("value", "meant"),
    [("8GB", "8192"), ("1.5 Gi", "1536"), ("512m", "512"), ("1T", "1048576"), ("8G 2", ""), ("lots", ""), ("0.1G", "")],
)
def test_memory_with_a_unit_is_put_into_mib(value: str, meant: str) -> None:
    resources = {"cpu": 1, "memoryMB": value, "gpu": 0}
    assert only_fault(job_with_worker(resourcePerInstance=resources)).suggestion == meant


def test_a_command_that_yaml_took_for_a_mapping_is_said_to_need_quotes() -> None:
    fault = only_fault(text_of(job()).replace("- python train.py", "- echo result: 5"))
    assert (fault.path, fault.allowed) == (
        "taskRoles.worker.commands[0]",
        'text, in quotes where it holds ": " or begins with { or [',
    )


def test_an_image_with_blanks_is_not_turned_into_another_image() -> None:
    for uri, meant in (("python:3.12\n", "python:3.12"), ("docker pull python", "")):
        document = job()
        document["prerequisites"][0]["uri"] = uri
        assert only_fault(document).suggestion == meant


@pytest.mark.parametrize(
    "changes", [{"name": "<% $parameters.epochs %>"}, {"jobRetryCount": "<% $parameters.epochs %>"}]
)
def test_a_reference_where_none_is_replaced_is_reported_with_where_it_would_be(changes: dict[str, Any]) -> None:
    fault = only_fault(job(**changes))
    assert "references are replaced in commands, a registry's credentials and plugins only" in fault.allowed
    assert fault.suggestion == ""


def test_a_file_of_long_names_does_not_buy_a_longer_answer() -> None:
    names = [{"type": "data", "name": "x" * 20_000 + str(index)} for index in range(30)]
    document = job_with_worker(prerequisites=[f"y{index}" for index in range(99)])
    document["prerequisites"] += names
    with pytest.raises(InvalidProtocol) as caught:
        read_job(text_of(document))
    assert len(caught.value.faults) == 99
    assert len(str(caught.value.as_dict())) < 1_000_000
    assert len(only_fault(text_of(job()) + "k" * 100_000 + ": {a: 1}\n").describe()) < 5_000


@pytest.mark.parametrize(
    ("message", "path", "allowed"),
    [
        ("foo", "", "a mapping of keys to values"),
        ({"preCommands": 3}, ".preCommands", "a list of commands"),
        ({"postCommands": ["a", {"b": 1}]}, ".postCommands[1]", "a command"),
        ({"callbacks": 3}, ".callbacks", "a list of mappings of event and commands"),
        ({"callbacks": [3]}, ".callbacks[0].event", "taskStarts, taskSucceeds"),
        ({"callbacks": [{"event": "taskStart"}]}, ".callbacks[0].event", "taskStarts, taskSucceeds"),
        ({"callbacks": [{"event": "taskStarts", "commands": [1]}]}, ".callbacks[0].commands[0]", "a command"),
    ],
)
def test_faults_of_the_plugin_that_runs_commands(message: Any, path: str, allowed: str) -> None:
    extras = {"com.microsoft.pai.runtimeplugin": [{"plugin": "cmd", "parameters": message}]}
    fault = only_fault(job(extras=extras))
    assert (fault.path, fault.allowed) == (f"extras.com.microsoft.pai.runtimeplugin[0].parameters{path}", allowed)
    if isinstance(message, dict):
        document = job()
        document["prerequisites"].append(
            {"type": "script", "name": "x", "plugin": "com.microsoft.pai.runtimeplugin.cmd", **message}
        )
        assert only_fault(document).path == f"prerequisites[4]{path}"


@pytest.mark.parametrize(("digest", "meant"), [("AAA", ""), ("AB" * 32, "ab" * 32)])
def test_a_code_that_is_no_digest_is_a_fault(digest: str, meant: str) -> None:
    fault = only_fault(job(extras={"code": digest}))
    assert (fault.path, fault.suggestion) == ("extras.code", meant)
    assert fault.allowed == "64 hexadecimal digits, a to f in lower case"


def test_every_pattern_of_the_schema_has_words() -> None:
    # The text of the key `extras.progress.pattern` in an example is no pattern of the schema.
    found = re.findall(r'"pattern": ("(?:[^"\\]|\\.)*"), "type"', json.dumps(json_schema(), sort_keys=True))
    assert found
    assert {json.loads(one) for one in found} <= set(PATTERNS)
