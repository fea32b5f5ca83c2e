"""`pai job efficiency` shows what was measured, says what was not, and `pai job show` ends with its advice."""

from __future__ import annotations

from typing import Any

from .test_commands import detail

ADVICE = "each task asked for 64 GB of memory and used at most 5 GB: ask for 8 GB"
NOT_MEASURED = {"asked": 100, "mean": None, "most": None, "share": None}


def document(*, gpus: int = 0, **more: Any) -> dict[str, Any]:
    role = {
        "name": "worker", "tasks": 2, "tasksMeasured": 2,
        "cpu": {"asked": 16, "mean": 2.5, "most": 4, "share": 0.15625},
        "memoryBytes": {"asked": 64 * 2**30, "mean": 3 * 2**30, "most": 5 * 2**30, "share": 0.078125},
        "gpus": gpus, "gpuPercent": NOT_MEASURED, "gpuMemoryPercent": NOT_MEASURED,
        "gpusMeasured": 0, "gpusUnused": 0, "advice": [ADVICE],
    }  # fmt: skip
    return {"isOver": False, "measuredSeconds": 5400, "taskRoles": [role], "noAdvice": "", **more}


def test_what_was_asked_for_and_used_is_a_table_with_advice(pai: Any, platform: Any) -> None:
    platform.on("GET", "/jobs/ann~train/efficiency", document(gpus=4))
    lines = pai("job", "efficiency", "train").out.splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["ROLE", "RESOURCE", "ASKED", "MEAN", "MOST", "USED"],
        ["worker", "CPUs", "16", "2.5", "4", "16%"],
        ["worker", "memory", "64", "GB", "3", "GB", "5", "GB", "8%"],
        ["worker", "GPU", "activity", "4", "GPUs", "-", "-", "-"],
    ]
    assert "so far; GPUs were not measured" in "\n".join(lines)
    assert ADVICE in lines
    assert max(map(len, lines)) <= 80
    assert pai("job", "efficiency", "train", "--json").json() == document(gpus=4)


def test_advice_names_its_role_where_there_are_several(pai: Any, platform: Any) -> None:
    (role,) = document()["taskRoles"]
    platform.on("GET", "/jobs/ann~train/efficiency", document(taskRoles=[role, role | {"name": "ps", "advice": ["x"]}]))
    shown = pai("job", "efficiency", "train").out
    assert f"worker: {ADVICE}" in shown
    assert "ps: x" in shown


def test_a_job_that_was_not_measured_says_so(pai: Any, platform: Any) -> None:
    platform.on("GET", "/jobs/ann~train/efficiency", document(measuredSeconds=0))
    assert "Nothing was measured of train" in pai("job", "efficiency", "train").out


def test_without_advice_it_says_why(pai: Any, platform: Any) -> None:
    (role,) = document()["taskRoles"]
    short = document(measuredSeconds=20, taskRoles=[role | {"advice": []}], noAdvice="it was measured for 20 s")
    platform.on("GET", "/jobs/ann~hello/efficiency", short)
    assert "no advice: it was measured for 20 s" in pai("job", "efficiency", "hello").out
    platform.on("GET", "/jobs/ann~hello", detail("SUCCEEDED"))
    shown = pai("job", "show", "hello").out.splitlines()
    assert "used 16% of its CPUs, 8% of its memory" in shown
    assert "no advice: it was measured for 20 s" in shown


def test_the_page_of_a_job_that_is_over_ends_with_the_advice(pai: Any, platform: Any) -> None:
    platform.on("GET", "/jobs/ann~hello", detail("SUCCEEDED"))
    assert "ask for" not in pai("job", "show", "hello").out  # a server that cannot say
    platform.on("GET", "/jobs/ann~hello/efficiency", document())
    shown = pai("job", "show", "hello").out
    assert "used 16% of its CPUs, 8% of its memory" in shown
    assert ADVICE in shown
    assert "no advice" not in shown
    assert "pai job efficiency hello" in shown
    platform.on("GET", "/jobs/ann~hello/efficiency", document(measuredSeconds=0))
    assert "used" not in pai("job", "show", "hello").out
    platform.on("GET", "/jobs/ann~hello", detail("RUNNING"))
    assert "ask for" not in pai("job", "show", "hello").out
