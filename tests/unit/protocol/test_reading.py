"""A good file becomes exactly the job it describes, every default applied."""

from __future__ import annotations

import json

import pytest

from openpai.protocol.errors import InvalidProtocol, Refused
from openpai.protocol.findings import Finding
from openpai.protocol.job import (
    MAX_JOB_BYTES,
    Auth,
    Completion,
    Deployment,
    JobSpec,
    Prerequisite,
    Resources,
    RoleCommands,
    TaskRole,
)
from openpai.protocol.reading import read_job

from .jobs import faults_in, job, job_with_worker, only_fault, text_of, warnings_of

WHOLE = """\
protocolVersion: "2"
name: whole
type: job
version: 1.5
contributor: somebody
description: |
  two
  lines
jobRetryCount: 3
prerequisites:
  - protocolVersion: 2
    type: dockerimage
    name: image
    uri: registry.example/image@sha256:abc
    auth: {username: me, password: <% $secrets.pw %>, registryuri: registry.example}
  - {type: data, name: pictures, uri: [a, b], version: latest}
  - type: script
    name: loader
    plugin: com.microsoft.pai.runtimeplugin.cmd
    require: [pictures]
    callbacks:
      - {event: taskStarts, commands: [echo]}
  - {type: output, name: results, uri: /out}
parameters: {epochs: 3}
secrets: {pw: x}
taskRoles:
  ps_Server:
    protocolVersion: 2
    instances: 2
    completion: {minFailedInstances: -1, minSucceededInstances: 1}
    taskRetryCount: 4
    prerequisites: [loader]
    dockerImage: image
    data: pictures
    output: results
    script: loader
    extraContainerOptions: {shmMB: 64, infiniband: true}
    resourcePerInstance: {cpu: 1, memoryMB: 2, gpu: 0, ports: {http: 1, peer_2: 3}}
    commands: [one, "two"]
deployments:
  - name: prod
    taskRoles:
      ps_Server: {preCommands: [before], postCommands: [after]}
defaults: {virtualCluster: vc1, deployment: prod, colour: red}
extras: {gangAllocation: false, mine: {on: [1]}}
"""


def test_every_field_of_the_protocol_arrives() -> None:
    assert read_job(WHOLE).spec == JobSpec(
        name="whole",
        version="1.5",
        contributor="somebody",
        description="two\nlines\n",
        job_retry_count=3,
        prerequisites=(
            Prerequisite(
                "dockerimage",
                "image",
                ("registry.example/image@sha256:abc",),
                auth=Auth("me", "<% $secrets.pw %>", "registry.example"),
            ),
            Prerequisite("data", "pictures", ("a", "b"), version="latest"),
            Prerequisite(
                "script",
                "loader",
                plugin="com.microsoft.pai.runtimeplugin.cmd",
                require=("pictures",),
                extra={"callbacks": [{"event": "taskStarts", "commands": ["echo"]}]},
            ),
            Prerequisite("output", "results", ("/out",)),
        ),
        parameters={"epochs": 3},
        secrets={"pw": "x"},
        task_roles=(
            TaskRole(
                name="ps_Server",
                docker_image="image",
                resources=Resources(1, 2, 0, {"http": 1, "peer_2": 3}),
                commands=("one", "two"),
                instances=2,
                completion=Completion(-1, 1),
                task_retry_count=4,
                prerequisites=("loader",),
                data="pictures",
                output="results",
                script="loader",
                shm_mb=64,
                infiniband=True,
            ),
        ),
        deployments=(Deployment("prod", {"ps_Server": RoleCommands(("before",), ("after",))}),),
        virtual_cluster="vc1",
        deployment="prod",
        defaults_extra={"colour": "red"},
        extras={"gangAllocation": False, "mine": {"on": [1]}},
    )


def test_defaults_are_applied() -> None:
    spec = read_job(text_of(job_with_worker(instances=None, data=None, script=None, output=None))).spec
    (role,) = spec.task_roles
    assert (role.instances, role.completion, role.task_retry_count) == (1, Completion(1, 1), 0)
    assert (role.shm_mb, role.infiniband) == (512, False)
    assert (spec.virtual_cluster, spec.deployment, spec.job_retry_count) == ("default", None, 0)
    assert spec.is_gang


@pytest.mark.parametrize("absent", [0, None])
def test_zero_and_null_in_a_completion_policy_mean_absent(absent: int | None) -> None:
    document = job_with_worker(completion={"minFailedInstances": absent, "minSucceededInstances": absent})
    assert read_job(text_of(document)).spec.role("worker").completion == Completion(1, 4)


def test_a_key_without_a_value_counts_as_absent() -> None:
    spec = read_job(text_of(job(secrets=None)) + "secrets:\ndefaults:\nextras:\ndeployments:\n").spec
    assert (spec.secrets, spec.extras, spec.deployments, spec.virtual_cluster) == ({}, {}, (), "default")


@pytest.mark.parametrize(
    ("output", "is_gang"), [({}, True), ({"gangAllocation": None}, True), ({"gangAllocation": False}, False)]
)
def test_a_job_is_a_gang_unless_it_says_no(output: dict[str, bool | None], is_gang: bool) -> None:
    assert read_job(text_of(job(extras=output))).spec.is_gang is is_gang


def test_secrets_may_stand_in_a_second_document() -> None:
    text = text_of(job(secrets=None)) + "---\npassword: on\n"
    assert read_job(text).spec.secrets == {"password": "on"}
    assert read_job(text_of(job(secrets=None)) + "---\n").spec.secrets == {}


def test_secrets_in_two_places_and_third_documents_are_faults() -> None:
    assert only_fault(text_of(job()) + "---\nmore: x\n").path == "secrets"
    assert "more than a job" in only_fault(text_of(job(secrets=None)) + "---\na: x\n---\nb: y\n").message
    assert "more than a job" in only_fault(text_of(job(secrets=None)) + "---\n- x\n").message


def test_bytes_with_a_byte_order_mark_and_json_are_read() -> None:
    assert read_job(b"\xef\xbb\xbf" + text_of(job()).encode()).spec == read_job(text_of(job())).spec
    assert read_job(json.dumps(job(), indent="\t")).spec == read_job(text_of(job())).spec


@pytest.mark.parametrize("word", ["on", "yes", "no", "off", "y", "2024-01-01", "12:30:45", "007", "1_000", ".inf"])
def test_words_that_old_readers_misread_stay_text(word: str) -> None:
    text = text_of(job(parameters=None)) + f"parameters:\n  {word}: {word}\n"
    assert read_job(text).spec.parameters == {word: word}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("10", 10),
        ("-3", -3),
        ("0x1F", 31),
        ("1.50", 1.5),
        ("1e5", 100000),
        ("1e-3", 0.001),
        ("TRUE", True),
        ("~", None),
    ],
)
def test_numbers_and_truth_values_are_read_as_such(written: str, value: object) -> None:
    parameters = read_job(text_of(job(parameters=None)) + f"parameters: {{x: {written}}}\n").spec.parameters
    assert parameters == {"x": value}
    assert type(parameters["x"]) is type(value)


def test_anchors_and_merges_are_written_out() -> None:
    text = text_of(job(parameters=None)) + "parameters: {a: &a {x: 1, y: 2}, b: {<<: *a, y: 3}}\n"
    assert read_job(text).spec.parameters["b"] == {"x": 1, "y": 3}


@pytest.mark.parametrize(
    "text", [b"a" * (MAX_JOB_BYTES + 1), "a" * (10 * MAX_JOB_BYTES), "é" * (MAX_JOB_BYTES // 2 + 1)]
)
def test_a_file_over_the_limit_is_refused_unread(text: str | bytes) -> None:
    with pytest.raises(Refused) as caught:
        read_job(text)
    assert (caught.value.code, caught.value.status) == ("RequestTooLargeError", 413)


def test_a_file_of_just_the_limit_is_read() -> None:
    text = text_of(job())
    assert read_job(text + "#" * (MAX_JOB_BYTES - len(text.encode()))).spec.name == "ordinary"


def test_faults_and_warnings_of_upper_rooms_have_their_lines() -> None:
    text = text_of(job())
    faulty = Finding(("taskRoles",), "are not to our liking", "other roles")
    with pytest.raises(InvalidProtocol) as caught:
        read_job(text, check=lambda spec: ([faulty], []))
    assert [fault.path for fault in caught.value.faults] == ["taskRoles"]
    assert caught.value.faults[0].line is not None
    (warning,) = read_job(text, check=lambda spec: ([], [faulty])).warnings
    assert "taskRoles: are not to our liking" in warning


def test_a_second_job_in_a_file_is_refused_and_secrets_are_not() -> None:
    text = text_of(job(secrets=None))
    with pytest.raises(InvalidProtocol) as caught:
        read_job(f"{text}\n---\nname: other\ntaskRoles: {{}}\n")
    (fault,) = caught.value.faults
    assert fault.message == "a second job begins here"
    assert fault.line == text.count("\n") + 3
    assert read_job(f"{text}\n---\ntoken: abc\n").spec.secrets == {"token": "abc"}


def test_roles_that_end_each_other_are_warned_of() -> None:
    def roles(*minima: int | None) -> dict[str, object]:
        made = job()
        (worker,) = made["taskRoles"].values()
        of = [{} if minimum is None else {"minSucceededInstances": minimum} for minimum in minima]
        made["taskRoles"] = {f"role{at}": {**worker, "completion": each} for at, each in enumerate(of)}
        return made

    (warning,) = warnings_of(roles(None, None, -1))
    assert "as soon as role0 or role1 has succeeded, and its other tasks are ended then" in warning
    for harmless in ((None,), (None, -1), (-1, -1), (None, 1000)):
        assert not [message for message in warnings_of(roles(*harmless)) if "as soon as" in message]
    (warning,) = warnings_of(roles(*[None] * 9))
    assert "role4 or others" in warning


def test_minima_beyond_the_instances_are_warned_of() -> None:
    (warning,) = warnings_of(job_with_worker(completion={"minFailedInstances": 5}))
    assert "taskRoles.worker.completion.minFailedInstances: 5 can never be reached by 4 instances" in warning
    assert warning.startswith("line ")


def test_references_that_lead_nowhere_are_warned_of_with_what_was_meant() -> None:
    commands = ["a <% $parameters.epoch %>", "<% $data.uri[2] %> <% $data.uri[1] %>", "<% $param.epochs %>"]
    first, second, third = warnings_of(job_with_worker(commands=commands))
    assert "taskRoles.worker.commands[0]" in first
    assert "did you mean '<% $parameters.epochs %>'" in first
    assert "<% $data.uri[2] %> leads to nothing" in second
    assert "did you mean '<% $parameters.epochs %>'" in third


def test_references_in_deployments_and_credentials_are_looked_at_too() -> None:
    document = job(deployments=[{"name": "d", "taskRoles": {"worker": {"postCommands": ["<% $secrets.tokn %>"]}}}])
    document["prerequisites"][0]["auth"] = {"username": "me", "password": "<% $secrets.tok %>"}
    message = " ".join(warnings_of(document))
    assert "deployments[0].taskRoles.worker.postCommands[0]" in message
    assert "prerequisites[0].auth.password" in message
    assert message.count("did you mean '<% $secrets.token %>'") == 2


def test_a_password_that_is_written_out_is_warned_of_without_repeating_it() -> None:
    document = job()
    document["prerequisites"][0]["auth"] = {"username": "me", "password": "hunter2"}
    (warning,) = warnings_of(document)
    assert "prerequisites[0].auth.password: is written out" in warning
    assert "hunter2" not in warning


def test_roles_of_plugins_and_unknown_scheduler_keys_are_warned_of() -> None:
    plugin = {"plugin": "git", "taskroles": ["wroker"]}
    hived = {"jobPriority": "prod", "taskRoles": {"worker": {"skutype": "a"}}}
    message = warnings_of(job(extras={"com.microsoft.pai.runtimeplugin": [plugin], "hivedScheduler": hived}))
    assert [warning.rpartition("; did you mean ")[2] for warning in message] == [
        "'worker'?",
        "'jobPriorityClass'?",
        "'skuType'?",
    ]


def test_notifications_are_sent_and_have_no_warning() -> None:
    assert not warnings_of(job(extras={"jobStatusChangeNotification": {"failed": True, "running": False}}))


def test_an_unknown_key_that_changes_what_is_asked_for_is_warned_of() -> None:
    after = [{"job": "prepare", "end": "failed"}, {"job": "ann~b", "until": "ended", "id": "7"}, "c"]
    extras = {"after": after, "hangDetection": {"minutes": 5, "restart": 2}}
    message = warnings_of(job(extras=extras))
    assert [warning.partition(": ")[2].partition(" (")[0] for warning in message] == [
        "extras.after[0].end: has no effect: it is not a key that is known here",
        "extras.hangDetection.restart: has no effect: it is not a key that is known here",
    ]


def test_a_parameter_that_a_plugin_does_not_take_is_warned_of() -> None:
    plugins = [
        {"plugin": "cmd", "parameters": {"preCommand": ["a"], "postCommands": ["b"]}},
        {"plugin": "of-the-lab", "parameters": {"x": 1}},
    ]
    (message,) = warnings_of(job(extras={"com.microsoft.pai.runtimeplugin": plugins}))
    assert "[0].parameters.preCommand: has no effect: it is not a parameter of this plugin" in message
    assert message.endswith("did you mean 'preCommands'?")


def test_a_misspelt_key_among_keys_that_may_be_any_is_warned_of() -> None:
    extras = {
        "timeLimit": 5,
        "mine": {"gangAllocation": 1},
        "storages": [{"nmae": "x"}],
        "com.microsoft.pai.runtimeplugin": [{"plugin": "cmd", "taskRoles": ["worker"]}],
    }
    message = warnings_of(job(extras=extras, defaults={"virtualcluster": "default", "note": "mine"}))
    assert [warning.partition(": ")[2].replace("com.microsoft.pai.runtimeplugin", "pai") for warning in message] == [
        "defaults.virtualcluster: has no effect: it is not a key that is known here; did you mean 'virtualCluster'?",
        "extras.timeLimit: has no effect: it is not a key that is known here; did you mean 'timeLimitMinutes'?",
        "extras.storages[0].nmae: has no effect: it is not a key that is known here; did you mean 'name'?",
        "extras.pai[0].taskRoles: has no effect: it is not a key that is known here; did you mean 'taskroles'?",
    ]


def test_a_reference_in_an_image_is_warned_of() -> None:
    document = job()
    document["prerequisites"][0]["uri"] = "python:<%$parameters.epochs%>"
    (warning,) = warnings_of(document)
    assert "prerequisites[0].uri: is taken as it is: references are replaced in commands" in warning


def test_an_ordinary_job_has_no_warnings() -> None:
    assert warnings_of(job()) == ()
    assert read_job(WHOLE).warnings == ()


def test_more_than_a_job_and_its_secrets_is_reported_with_its_line() -> None:
    text = text_of(job(secrets=None))
    line = text.count("\n")
    assert only_fault(f"{text}---\na: b\n---\nc: d\n").line == line + 4
    assert only_fault(f"{text}---\n- a\n").line == line + 2


def test_every_refusal_names_the_protocol_error() -> None:
    assert [fault.path for fault in faults_in("name: x")] == ["protocolVersion", "type", "taskRoles"]
