"""Traces of all formats are read, and faults are reported with their lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openpai.protocol.errors import Refused
from openpai.simulator.formats import read_trace, recognised, write_ours
from openpai.simulator.synthetic import SyntheticSpec, generate
from openpai.simulator.trace import InvalidTrace, TraceJob

OURS = """job,vc,user,submitted_s,run_s,gpus,tasks,priority
second,vision,eve,130,60.5,16,2,prod
first,vision,bob,100,3600,1,,
idle,vision,bob,101,3600,0,,
third,speech,ann,160,1,8,,-1
"""

PHILLY = [
    {
        "status": "Pass",
        "vc": "6214e9",
        "jobid": "application_1",
        "user": "ce2f4c",
        "submitted_time": "2017-10-09 07:02:00",
        "attempts": [
            {
                "start_time": "2017-10-09 07:03:00",
                "end_time": "2017-10-09 07:05:00",
                "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}],
            },
            {
                "start_time": "2017-10-09 08:00:00",
                "end_time": "2017-10-09 08:10:00",
                "detail": [{"ip": "m1", "gpus": ["gpu0"] * 4}, {"ip": "m2", "gpus": ["gpu0"] * 4}],
            },
        ],
    },
    {
        "vc": "6214e9",
        "jobid": "application_2",
        "submitted_time": "2017-10-09 07:00:00",
        "attempts": [
            {
                "start_time": "2017-10-09 07:00:30",
                "end_time": "2017-10-09 07:00:40",
                "detail": [{"ip": "m1", "gpus": ["gpu0"] * 7}, {"ip": "m2", "gpus": ["gpu0"]}],
            }
        ],
    },
    {"vc": "6214e9", "jobid": "application_3", "submitted_time": "2017-10-09 07:00:00", "attempts": []},
    {"vc": "6214e9", "jobid": "application_4", "submitted_time": "None", "attempts": []},
    {
        "vc": "6214e9",
        "jobid": "application_5",
        "submitted_time": "2017-10-09 07:00:00",
        "attempts": [{"start_time": "2017-10-09 07:00:30", "end_time": None, "detail": [{"ip": "m1", "gpus": ["g"]}]}],
    },
]

HELIOS = """job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
12,u1,vcA,train,16,64,2,COMPLETED,2020-06-09 18:41:11,2020-06-09 18:42:11,2020-06-09 19:42:11,3600,60
11,u2,vcB,train,1,4,1,FAILED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 18:41:06,5,0
13,u2,vcB,prepare,0,4,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 18:41:06,5,0
14,u2,vcB,train,1,4,1,CANCELLED,,2020-06-09 18:41:01,2020-06-09 18:41:06,5,0
"""


def test_our_own_format_says_all_there_is_to_say() -> None:
    found = read_trace(OURS)
    assert found.jobs == (
        TraceJob("first", "vision", 0, 3_600_000, 1, "bob"),
        TraceJob("second", "vision", 30_000, 60_500, 16, "eve", 2, 100),
        TraceJob("third", "speech", 60_000, 1000, 8, "ann", None, -1),
    )
    assert found.left_out == {"without GPUs": 1}


def test_what_we_write_we_read_again() -> None:
    made = generate(SyntheticSpec(jobs=200, days=1, opportunistic=0.3), {"a": 64, "b": 16})
    assert read_trace(write_ours(made)) == made


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a,v,,x,1,1,,", "line 2: submitted_s is 'x', which is not a number"),
        ("a,v,,1,-1,1,,", "line 2: run_s is -1; it must be from 0 to"),
        ("a,v,,1,nan,1,,", "line 2: run_s is nan"),
        ("a,v,,1,1,4,5,", "line 2: tasks is 5; it must be between 1 and the number of GPUs, 4"),
        ("a,v,,1,1,4,,urgent", "line 2: priority is 'urgent'; use a number from -1 to 1000, or one of crit, prod"),
        (",v,,1,1,4,,", "line 2: job and vc must not be empty"),
        ("a,v,,1,1,4,,\na,v,,1,1,4,,", "line 3: job: 'a' is listed twice"),
    ],
)
def test_a_wrong_line_is_named(line: str, message: str) -> None:
    with pytest.raises(InvalidTrace) as caught:
        read_trace(f"job,vc,user,submitted_s,run_s,gpus,tasks,priority\n{line}\n")
    assert message in caught.value.message
    assert len(caught.value.faults) == 1


def test_all_missing_and_unknown_columns_are_named() -> None:
    with pytest.raises(InvalidTrace) as caught:
        read_trace("job,vc,gpus,colour\n")
    assert [fault.path for fault in caught.value.faults] == ["submitted_s", "run_s", "colour"]


def test_a_philly_log_gives_jobs_their_attempts_together_and_the_last_size() -> None:
    found = read_trace(json.dumps(PHILLY))
    assert found.jobs == (
        # Seven GPUs here and one there is nothing anybody asks for.
        TraceJob("application_2", "6214e9", 0, 10_000, 8, "", None),
        TraceJob("application_1", "6214e9", 120_000, 720_000, 8, "ce2f4c", 2),
    )
    assert found.left_out == {"never ran to an end": 2, "without a submission time": 1}


def test_a_helios_log_gives_jobs_their_nodes() -> None:
    found = read_trace(HELIOS)
    assert found.jobs == (
        TraceJob("11", "vcB", 0, 5000, 1, "u2", 1),
        TraceJob("12", "vcA", 10_000, 3_600_000, 16, "u1", 2),
    )
    assert found.left_out == {"without GPUs": 1, "without a submission time": 1}


def test_formats_are_recognised_by_how_they_look() -> None:
    assert [recognised(text) for text in (OURS, json.dumps(PHILLY), HELIOS)] == ["ours", "philly", "helios"]


def test_an_unknown_format_and_broken_json_are_refused() -> None:
    with pytest.raises(Refused, match="no trace format is called 'slurm'"):
        read_trace(OURS, "slurm")
    with pytest.raises(InvalidTrace, match="this is not JSON"):
        read_trace("[{")
    with pytest.raises(InvalidTrace, match="this is not JSON"):
        read_trace("[" * 100_000, "philly")


JOB = {"jobid": "x", "vc": "v", "submitted_time": "2017-10-03 00:00:00"}
ATTEMPT = {"start_time": "2017-10-03 00:00:00", "end_time": "2017-10-03 00:01:00"}


@pytest.mark.parametrize(
    "attempts", [[1], 1, "x", [None], [{**ATTEMPT, "detail": [5]}], [{**ATTEMPT, "detail": 7}], [{"start_time": {}}]]
)
def test_a_job_of_another_shape_is_left_out(attempts: Any) -> None:
    sound = {**JOB, "attempts": [{**ATTEMPT, "detail": [{"gpus": ["g0"]}]}]}
    trace = read_trace(json.dumps([sound, {**JOB, "jobid": "y", "attempts": attempts}]), "philly")
    assert [job.id for job in trace.jobs] == ["x"]


def test_a_line_with_endless_gpus_is_left_out() -> None:
    more = "15,u2,vcB,train,inf,4,1,FAILED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 18:41:06,5,0\n"
    assert len(read_trace(HELIOS + more, "helios").jobs) == len(read_trace(HELIOS, "helios").jobs)


def test_a_job_without_a_number_of_tasks_fills_nodes() -> None:
    assert TraceJob("a", "v", 0, 1, 20).sizes(8) == (8, 8, 4)
    assert TraceJob("a", "v", 0, 1, 10, tasks=4).sizes(8) == (3, 3, 2, 2)


PHILLY_CSV = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-03 00:00:00,600,8,4800,ee9e8c
2017-10-03 00:01:40,30.5,1,30.5,6214e9
2017-10-03 00:02:00,30,0,0,6214e9
soon,30,1,30,6214e9
2017-10-03 00:02:00,,1,30,6214e9
"""


def test_the_csv_in_which_philly_circulates_is_read() -> None:
    assert recognised(PHILLY_CSV) == "philly-csv"
    found = read_trace(PHILLY_CSV)
    first, second = found.jobs
    assert (first.virtual_cluster, first.submitted_ms, first.run_ms, first.gpus) == ("ee9e8c", 0, 600_000, 8)
    assert (second.virtual_cluster, second.submitted_ms, second.run_ms, second.gpus) == ("6214e9", 100_000, 30_500, 1)
    assert found.left_out == {"without GPUs": 1, "without a submission time": 1, "without a size or duration": 1}


def test_times_of_that_csv_may_be_seconds_and_its_jobs_of_one_virtual_cluster() -> None:
    found = read_trace("timestamp,duration,num_gpus\n1507000000,60,2\n1507000010.5,60,2\nnan,1,1\n1,1,inf\n")
    assert [(job.virtual_cluster, job.submitted_ms) for job in found.jobs] == [("default", 0), ("default", 10_500)]
    assert sum(found.left_out.values()) == 2


def test_that_csv_without_a_size_is_refused() -> None:
    with pytest.raises(InvalidTrace, match="duration"):
        read_trace("timestamp,num_gpus,gpu_time\n1,1,1\n")
