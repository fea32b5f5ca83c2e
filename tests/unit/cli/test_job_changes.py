"""Options that change a job file on its way: the same meaning, however the file is written, and its own lines."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from openpai.cli.job_changes import Changes, changed, describe
from openpai.protocol.errors import InvalidProtocol, Refused
from openpai.protocol.placement import time_limit_ms
from openpai.protocol.reading import read_job

ROLE = {
    "dockerImage": "i",
    "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0},
    "commands": ["echo hi"],
}
JOB = {
    "protocolVersion": 2,
    "name": "hello",
    "type": "job",
    "prerequisites": [{"type": "dockerimage", "name": "i", "uri": "busybox"}],
    "taskRoles": {"worker": ROLE},
}
WITH_DEFAULTS = {**JOB, "defaults": {"colour": "red"}, "extras": {"hivedScheduler": {"taskRoles": {}}}}
WITHOUT_VALUES = yaml.safe_dump(JOB, sort_keys=False) + "defaults:\nextras: # none\n"
ANCHORED = """\
protocolVersion: 2
name: &name hello
type: job
prerequisites:
- {type: dockerimage, name: i, uri: busybox}
taskRoles:
  worker: &role
    dockerImage: i
    resourcePerInstance: &small   # little
      cpu: 1
      memoryMB: 64
      gpu: 0
    commands: &commands
    # says - hi
    -
      echo hi
extras: {}
defaults: ~
"""
EVERYTHING = Changes(
    name="other",
    vc="team-a",
    priority="prod",
    time_limit="1h30m",
    env=["A=1", "B=it's <here> 'é"],
    gpus=["2"],
    instances=["worker=3"],
)


@pytest.mark.parametrize(
    "text",
    [
        yaml.safe_dump(JOB, sort_keys=False),
        yaml.safe_dump(JOB, sort_keys=False, default_flow_style=True),
        yaml.safe_dump(WITH_DEFAULTS, sort_keys=False, indent=4),
        yaml.safe_dump(JOB, sort_keys=False).replace("\n", "\r\n"),
        "\ufeff" + yaml.safe_dump(JOB),
        json.dumps(JOB),
        json.dumps(WITH_DEFAULTS, indent="\t"),
        WITHOUT_VALUES,
        WITHOUT_VALUES.rstrip("\n"),
        WITHOUT_VALUES.replace("extras: # none\n", "extras:"),
        ANCHORED,
    ],
)
def test_every_option_means_the_same_however_the_file_is_written(text):
    spec = read_job(changed(text.encode(), EVERYTHING).content).spec
    role = spec.role("worker")
    assert (spec.name, spec.virtual_cluster, role.instances, role.resources.gpus) == ("other", "team-a", 3, 2)
    assert spec.extras["hivedScheduler"]["jobPriorityClass"] == "prod"
    assert time_limit_ms(spec.extras) == 90 * 60_000
    assert list(role.commands) == ["export A=1", "export B='it'\"'\"'s <here> '\"'\"'é'", "echo hi"]


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("30s", 30), ("3", 180), ("90s", 90), ("10s", 10), ("1d12h", 129_600), ("0.5", 30), ("1h30m", 5400), ("7s", 7)],
)
def test_a_time_limit_is_what_was_asked_to_the_second(given, seconds):
    spec = read_job(changed(json.dumps(JOB).encode(), Changes(time_limit=given)).content).spec
    assert time_limit_ms(spec.extras) == seconds * 1000


def test_a_file_that_was_json_is_json_afterwards():
    assert json.loads(changed(json.dumps(WITH_DEFAULTS).encode(), EVERYTHING).content)["name"] == "other"


def test_files_of_version_1_have_their_own_words():
    old = {"jobName": "x", "image": "i", "taskRoles": [{"name": "w", "command": "true", "gpuNumber": 4}]}
    wanted = Changes("y", vc="v", priority="oppo", time_limit="5", env=["A=b c"], gpus=["w=1"], instances=["2"])
    spec = read_job(changed(json.dumps(old, indent=1).encode(), wanted).content).spec
    role = spec.role("w")
    assert (spec.name, spec.virtual_cluster, role.instances, role.resources.gpus) == ("y", "v", 2, 1)
    assert spec.extras["timeLimitMinutes"] == 5
    assert "export A='b c'" in str(spec.deployments)


def test_faults_keep_the_lines_of_the_file_and_added_ones_have_none():
    text = ANCHORED.replace("memoryMB: 64", "memoryMB: -64").replace("defaults: ~", "default: ~")
    before = lines_of(text, Changes())
    after = lines_of(text, Changes(priority="prood", gpus=["x"], env=["A=1", "B=2"], vc="v"))
    assert before == {"taskRoles.worker.resourcePerInstance.memoryMB": 11, "default": 18}
    assert after == {
        **before,
        "taskRoles.worker.resourcePerInstance.gpu": 12,
        "extras.hivedScheduler.jobPriorityClass": 17,
    }
    block = yaml.safe_dump(WITH_DEFAULTS, sort_keys=False)
    assert lines_of(block, Changes(priority="prood")) == {"extras.hivedScheduler.jobPriorityClass": None}


def lines_of(text: str, wanted: Changes) -> dict[str, int | None]:
    edited = changed(text.encode(), wanted)
    with pytest.raises(InvalidProtocol) as caught:
        read_job(edited.content)
    shown = describe("x.yaml", edited, caught.value)
    for fault in edited.faults(caught.value.faults):
        if fault.line is not None:
            number, line = next(re.finditer(rf"^ +({fault.line}) \| (.*)\n +\|", shown, re.MULTILINE)).groups()
            assert line.split(":")[0] == text.splitlines()[int(number) - 1].split(":")[0]
    return {fault.path: fault.line for fault in edited.faults(caught.value.faults)}


def test_remarks_keep_the_lines_of_the_file():
    edited = changed(ANCHORED.encode(), Changes(env=["A=1", "B=2"]))
    sent = edited.content.decode().splitlines().index("extras: {}") + 1
    assert edited.remark(f"line {sent}: odd") == "line 17: odd"
    assert edited.remark("odd line 3: x") == "odd line 3: x"


@pytest.mark.parametrize(
    ("wanted", "word"),
    [
        (Changes(time_limit="soon"), "not a duration"),
        (Changes(time_limit="1h 30m"), "not a duration"),
        (Changes(env=["1A=x"]), "not a name for a variable"),
        (Changes(env=["A"]), "not an assignment"),
        (Changes(gpus=["workr=1"]), "no task role 'workr'"),
        (Changes(gpus=["1"]), "2 task roles: worker, ps"),
        (Changes(instances=["ps=2"]), "shares its definition"),
        (Changes(gpus=["third=2"]), "defined elsewhere"),
    ],
)
def test_an_option_that_means_nothing_is_refused_with_a_way_out(wanted, word):
    text = ANCHORED.replace("extras: {}\n", "  ps: *role\nextras: {}\n")
    if wanted.gpus == ["third=2"]:
        text = text.replace("  ps: *role\n", "  third:\n    resourcePerInstance: *small\n    commands: []\n")
    with pytest.raises(Refused, match=word) as caught:
        changed(text.encode(), wanted)
    assert caught.value.advice


def test_roles_that_share_their_commands_get_a_variable_once():
    text = ANCHORED.replace("extras: {}\n", "  ps: *role\nextras: {}\n")
    spec = read_job(changed(text.encode(), Changes(env=["A=1"])).content).spec
    assert [list(role.commands) for role in spec.task_roles] == [["export A=1", "echo hi"]] * 2


@pytest.mark.parametrize("text", ["", "- 1", "just text", "a: [", "\xff"])
def test_what_is_no_job_at_all_is_refused(text):
    with pytest.raises(Refused, match=r"empty|holds a|not YAML|not UTF-8"):
        read_job(changed(text.encode("latin-1"), EVERYTHING).content)
