"""Old JSON files become jobs that do the same, and say what could not be carried over."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from openpai.orchestrator.submitting import in_version_1
from openpai.protocol.errors import Fault
from openpai.protocol.job import Completion, Resources
from openpai.protocol.reading import Read, read_job
from openpai.protocol.templates import render_commands

from .jobs import faults_in, only_fault


def old(**changes: Any) -> dict[str, Any]:
    role = {
        "name": "main",
        "taskNumber": 2,
        "cpuNumber": 4,
        "memoryMB": 8192,
        "gpuNumber": 1,
        "command": "python main.py",
    }
    return {"jobName": "old", "image": "some/image", "taskRoles": [role], **changes}


def old_role(**changes: Any) -> dict[str, Any]:
    document = old()
    document["taskRoles"][0].update(changes)
    return document


def read(document: dict[str, Any]) -> Read:
    return read_job(json.dumps(document, indent=2))


def warning_of(document: dict[str, Any]) -> str:
    (warning,) = read(document).warnings
    return warning


def test_a_plain_old_job_is_carried_over_whole_and_without_warnings() -> None:
    document = old_role(portList=[{"label": "web", "beginAt": 0, "portNumber": 2}], shmMB=128, minSucceededTaskCount=1)
    found = read({**document, "virtualCluster": "vc1", "retryCount": 3, "extras": {"mine": 1}})
    assert found.warnings == ()
    spec, role = found.spec, found.spec.role("main")
    assert (spec.name, spec.virtual_cluster, spec.job_retry_count, spec.extras) == ("old", "vc1", 3, {"mine": 1})
    assert spec.prerequisite("dockerimage", role.docker_image).uri == ("some/image",)
    assert role.resources == Resources(4, 8192, 1, {"web": 2})
    assert (role.instances, role.completion, role.shm_mb) == (2, Completion(1, 1), 128)
    assert role.commands == ("python main.py",)


def test_old_defaults_are_the_old_ones() -> None:
    document = old(taskRoles=[{"name": "main", "command": "x"}])
    role = read(document).spec.role("main")
    assert role.resources == Resources(1, 100, 0)
    assert (role.instances, role.completion, role.shm_mb) == (1, Completion(1, 1), 64)


def test_directories_and_variables_reach_the_commands() -> None:
    document = old(
        dataDir="$PAI_DEFAULT_FS_URI/my data/$(touch x)",
        outputDir="/out/$PAI_JOB_NAME",
        codeDir="/code",
        jobEnvs={"GREETING": 'it\'s "$HOME"', "N": 3, "FLAG": True, "1bad": "x", "nested": {"a": 1}},
    )
    found = read(document)
    commands = render_commands(found.spec, "main").replace(
        "python main.py", 'printf "%s\\n" "$PAI_DATA_DIR" "$PAI_OUTPUT_DIR" "$PAI_CODE_DIR" "$GREETING" "$N" "$FLAG"'
    )
    shell = subprocess.run(
        ["/bin/sh", "-eu", "-c", commands],
        env={"PAI_DEFAULT_FS_URI": "hdfs://h", "PAI_JOB_NAME": "me~old", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shell.stdout.splitlines() == [
        "hdfs://h/my data/$(touch x)",
        "/out/me~old",
        "/code",
        'it\'s "$HOME"',
        "3",
        "true",
    ]
    message = "\n".join(found.warnings)
    for key in ("dataDir", "outputDir", "codeDir", "jobEnvs.1bad", "jobEnvs.nested"):
        assert f"{key}: " in message
    assert found.spec.parameters["N"] == 3


@pytest.mark.parametrize(
    ("document", "path", "part"),
    [
        (old(jobName="old.1"), "jobName", "'old_1'"),
        (old_role(name="ps~0"), "taskRoles[0].name", "'ps_0'"),
        (old_role(name="0.a"), "taskRoles[0].name", "'_0_a'"),
        (old_role(portList=[{"label": "web-ui"}]), "taskRoles[0].portList[0].label", "'web_ui'"),
        (old_role(portList=[{"label": "web", "beginAt": 8080}]), "taskRoles[0].portList[0].beginAt", "left out"),
        (old_role(minFailedTaskCount=None), "taskRoles[0].minFailedTaskCount", "-1"),
        (old(killAllOnCompletedTaskNumber=1), "killAllOnCompletedTaskNumber", "minSucceededTaskCount"),
        (old(authFile="hdfs://x"), "authFile", "secrets"),
        (old(retryCount=-1), "retryCount", "-1 is 100 now"),
        (old(retryCount=-2), "retryCount", "succeeded jobs are not run again"),
        (old(gpuType="K80"), "gpuType", "skuType 'K80'"),
        (old(imagee="x"), "imagee", "did you mean 'image'"),
        (old_role(gpus=1), "taskRoles[0].gpus", "left out"),
        (old(jobEnvs={"isDebug": True}), "jobEnvs.isDebug", "ordinary variable"),
    ],
)
def test_what_could_not_be_carried_over_is_reported_with_its_line(
    document: dict[str, Any], path: str, part: str
) -> None:
    warning = warning_of(document)
    key = path.rpartition(".")[2].partition("[")[0]
    line = next(
        number for number, row in enumerate(json.dumps(document, indent=2).splitlines(), 1) if f'"{key}"' in row
    )
    assert warning.startswith(f"line {line}: {path}: ")
    assert part in warning


def test_a_gpu_type_becomes_a_setting_for_the_scheduler() -> None:
    spec = read(old(gpuType="K80")).spec
    assert spec.extras["hivedScheduler"]["taskRoles"] == {"main": {"skuType": "K80"}}
    assert "no task role asks for GPUs" in warning_of({**old_role(gpuNumber=0), "gpuType": "K80"})


def test_failed_tasks_never_fail_the_job_where_the_old_file_said_null() -> None:
    assert read(old_role(minFailedTaskCount=None)).spec.role("main").completion.min_failed == -1


def test_faults_are_reported_in_the_old_files_own_keys() -> None:
    document = old_role(gpuNumber=-1, command="", memoryMB="8 GB")
    del document["image"]
    message = {fault.path: fault.line for fault in faults_in(json.dumps(document, indent=2))}
    assert message == {
        "image": None,
        "taskRoles[0].gpuNumber": 9,
        "taskRoles[0].command": 10,
        "taskRoles[0].memoryMB": 8,
    }


def test_what_a_missing_key_was_meant_to_be_is_said_beside_it() -> None:
    document = old_role(comand="x")
    del document["taskRoles"][0]["command"]
    document["imag"] = document.pop("image")
    message = {fault.path: fault.suggestion for fault in faults_in(json.dumps(document, indent=2))}
    assert message == {"image": "", "imag": "image", "taskRoles[0].command": "", "taskRoles[0].comand": "command"}


def test_what_is_wrong_with_all_task_roles_together_has_their_line() -> None:
    document = old()
    document["taskRoles"] = [{"name": name, "command": "x", "taskNumber": 9_000} for name in "ab"]
    text = json.dumps(document, indent=2)
    assert only_fault(text).line == text[: text.index("taskRoles")].count("\n") + 1


def test_names_that_fall_together_are_a_fault() -> None:
    document = old()
    document["taskRoles"] = [{"name": "a.b", "command": "x"}, {"name": "a_b", "command": "x"}]
    fault = only_fault(json.dumps(document))
    assert (fault.path, fault.message) == ("taskRoles[1].name", "there is already a task role called 'a_b'")


def test_comments_are_allowed() -> None:
    text = json.dumps(old(), indent=2).replace('"image"', '// which image\n  "image"')
    assert read_job(text).spec.name == "old"


def test_a_megabyte_of_unknown_keys_is_answered_with_the_first_few() -> None:
    warnings = read(old(**{f"x{index}": 1 for index in range(20_000)})).warnings
    assert len(warnings) == 100


def test_the_line_of_a_gpu_type_is_remembered_for_what_the_cluster_says_of_it() -> None:
    found = read(old(gpuType="K80"))
    assert found.gpu_type_line is not None
    assert read(old()).gpu_type_line is None
    at = "extras.hivedScheduler.taskRoles"
    faults = tuple(Fault(f"{at}.{role}.skuType", "the cluster has no SKU type 'K80'") for role in ("a", "b"))
    (message,) = in_version_1(faults, found.gpu_type_line)
    assert (message.path, message.line) == ("gpuType", found.gpu_type_line)
