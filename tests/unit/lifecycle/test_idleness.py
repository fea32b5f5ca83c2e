"""Idle GPUs: two signs, never utilisation alone; a labelled set is in bench/idleness.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openpai.lifecycle.idleness import Gpu, Rest, Sign, Verdict, judge, rested
from openpai.lifecycle.model import AttemptKey

KEY, OTHER = AttemptKey("j", 0, "w", 0, 0), AttemptKey("j", 0, "w", 1, 0)
STILL = Gpu(0.0, 0.0, 60.0, 700.0)
SLICE = Gpu(memory_bytes=20 << 30, is_slice=True)
HOPPER_SLICE = replace(SLICE, busy_percent=0.0, tensor_percent=0.0)


def lived(*signs: Sign) -> Rest:
    rest: Rest | None = None
    for sign in signs:
        rest = rested(rest, sign)
    assert rest is not None
    return rest


def during(gpu: Gpu, minutes: int = 40, **per_minute: float) -> Rest:
    """Return what is known after so many minutes in which these counters grow."""
    cpu_s, io, logs = (per_minute.get(each, 0.0) for each in ("cpu_s", "io", "logs"))
    step = per_minute.get("step")
    return lived(
        Sign(0, (STILL,)),
        *(
            Sign(
                minute * 60_000, (gpu,), cpu_s * minute, int(io * minute),
                None if step is None else step * minute, log_bytes=int(logs * minute),
            )
            for minute in range(minutes)
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("what", "rest", "verdict"),
    [
        ("an open notebook", during(STILL, cpu_s=1.0), Verdict.IDLE),
        ("a shell that sleeps, without power or tensor activity", during(Gpu(0.0)), Verdict.IDLE),
        ("a GPU whose memory is full and which does nothing", during(Gpu(0.0, 0.0, 66.0, 700.0)), Verdict.IDLE),
        ("training", during(Gpu(99.0, 40.0, 500.0, 700.0), cpu_s=60), Verdict.WORKS),
        ("training without tensor cores", during(Gpu(70.0, 0.0, 300.0, 700.0), logs=80), Verdict.WORKS),
        ("a kernel that waits for other ranks", during(Gpu(100.0, 0.0, 130.0, 700.0)), Verdict.HANGS),
        ("a step that never comes", during(STILL, step=0.0), Verdict.HANGS),
        ("nothing but what it claims to use", during(Gpu(100.0)), Verdict.HANGS),
    ],
)
def test_what_a_job_does(what: str, rest: Rest, verdict: Verdict) -> None:
    found, seconds = judge({KEY: rest}, [KEY])
    assert found is verdict, what
    assert (seconds > 1800) == (verdict is not Verdict.WORKS), what


@pytest.mark.parametrize("counters", [{"cpu_s": 30.0}, {"io": 100_000_000.0}, {"logs": 10.0}])
def test_loading_data_compiling_and_evaluating_are_work_although_the_gpu_rests_in_between(
    counters: dict[str, float],
) -> None:
    now = during(replace(STILL, power_w=None), **counters)
    assert judge({KEY: now}, [KEY])[0] is Verdict.WORKS


def test_a_moment_of_work_begins_the_time_again() -> None:
    rest = during(STILL)
    again = rested(rest, Sign(rest.last.at_ms + 60_000, (Gpu(80.0, 30.0, 400.0, 700.0),), cpu_s=60))
    assert again.idle_ms == 0


def test_a_job_is_idle_only_if_each_of_its_tasks_is() -> None:
    idle, busy = during(STILL), during(Gpu(99.0, 40.0, 500.0, 700.0), cpu_s=60)
    assert judge({KEY: idle, OTHER: idle}, [KEY, OTHER])[0] is Verdict.IDLE
    assert judge({KEY: idle, OTHER: busy}, [KEY, OTHER]) == (Verdict.WORKS, 0.0)
    assert judge({KEY: idle}, [KEY, OTHER]) == (Verdict.WORKS, 0.0)
    assert judge({}, []) == (Verdict.WORKS, 0.0)


def test_time_without_measurements_and_clocks_that_jump_do_not_count() -> None:
    rest = lived(Sign(0, (STILL,)), Sign(60_000, (STILL,)), Sign(86_400_000, (STILL,)), Sign(100_000, (STILL,)))
    assert rest.idle_ms == 120_000


def blips(every: int, gpu: Gpu = STILL, *, samples: int = 1, step: float = 0.0) -> Rest:
    """Return what is known after 40 minutes with `samples` of work on a processor in each `every`, of 15 s each."""
    cpu_s, signs = 0.0, []
    for at in range(160):
        is_blip = at % every < samples and at > 0
        cpu_s += 10.0 * is_blip
        reported = None if not step else step * (at // every)
        signs.append(Sign(at * 15_000, (gpu if is_blip else STILL,), cpu_s, 0, reported, log_bytes=int(cpu_s)))
    return lived(*signs)


def test_a_cell_that_runs_every_ten_minutes_makes_no_notebook_busy() -> None:
    verdict, seconds = judge({KEY: (rest := blips(40))}, [KEY])
    assert verdict is Verdict.IDLE
    # What it did does not count as idle.
    assert seconds == 39 * 60 + 45 - 3 * 15 - 0
    assert rest.blip_ms == 45_000


@pytest.mark.parametrize(
    ("what", "rest"),
    [
        ("more than a twentieth of the time", blips(10)),
        ("five minutes of processors in ten", blips(40, samples=20)),
        ("a minute of its GPUs in ten", blips(40, Gpu(80.0, 30.0, 500.0, 700.0), samples=4)),
        ("a moment of its GPUs in ten minutes", blips(40, Gpu(80.0, 30.0, 500.0, 700.0))),
        ("a step now and then", blips(40, step=1.0)),
    ],
)
def test_what_is_more_than_a_blip_ends_idleness(what: str, rest: Rest) -> None:
    verdict, seconds = judge({KEY: rest}, [KEY])
    assert not (verdict is Verdict.IDLE and seconds >= 900), what


def on_a_slice(*, gpu: Gpu = SLICE, line_every: int = 0, grows: int = 0, step: float | None = None) -> Rest:
    """Return what is known after 40 minutes of a slice whose task prints a line now and then."""
    return lived(
        *(
            Sign(
                at * 15_000, (replace(gpu, memory_bytes=(20 << 30) + grows * at),), 0.1 * at, 0, step,
                log_bytes=80 * (at // line_every) if line_every else 0,
            )
            for at in range(160)
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("what", "rest", "is_idle"),
    [
        ("an open notebook that holds memory", on_a_slice(), True),
        ("one on a card that measures slices", on_a_slice(gpu=HOPPER_SLICE), True),
        ("one there whose heartbeat prints a line", on_a_slice(gpu=HOPPER_SLICE, line_every=40), True),
        ("work, as such a card says", on_a_slice(gpu=replace(HOPPER_SLICE, busy_percent=60.0)), False),
        ("memory that changes", on_a_slice(grows=1 << 20), False),
        ("kernels that run for minutes, with a line in between", on_a_slice(line_every=40), False),
        ("kernels of a job that has reported progress", on_a_slice(step=3.0), False),
        ("a card that says nothing at all", during(Gpu(is_slice=True)), False),
    ],
)
def test_a_slice_is_judged_by_its_own_signs(what: str, rest: Rest, is_idle: bool) -> None:
    verdict, seconds = judge({KEY: rest}, [KEY])
    assert (verdict is Verdict.IDLE and seconds >= 1800) == is_idle, what
