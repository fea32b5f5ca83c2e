"""Advice on what to ask for: only of what was measured, with room, and never less than was used."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpai.lifecycle.efficiency import LEAST_MS, RoleUse, Used, efficiency_of, rounded_up_mb, why_no_advice
from openpai.protocol.job import Resources, TaskRole

GB = 2**30
HOUR_MS = 3_600_000


def advice(use: RoleUse, *, cpus: int = 8, memory_gb: float = 64, gpus: int = 0, measured_ms: int = HOUR_MS) -> str:
    role = TaskRole("worker", "image", Resources(cpus, int(memory_gb * 1024), gpus), ("true",))
    (found,) = efficiency_of([role], {"worker": use}, measured_ms)
    return "; ".join(found.advice)


def test_memory_that_was_not_used_is_named_with_what_would_do() -> None:
    use = RoleUse(1, memory_bytes=Used(3 * GB, 5 * GB))
    assert advice(use) == "each task asked for 64 GB of memory and used at most 5 GB: ask for 8 GB"
    assert advice(use, memory_gb=12) == ""
    assert advice(RoleUse(1, memory_bytes=Used(3 * GB, 7.9 * GB)), memory_gb=8) == (
        "a task used 7.9 GB of 8 GB of memory; beyond that it is killed: ask for 12 GB"
    )


def reason(use: RoleUse, *, gpus: int = 0, measured_ms: int = HOUR_MS) -> str:
    role = TaskRole("worker", "image", Resources(4, 8 * 1024, gpus), ("true",))
    return why_no_advice(efficiency_of([role], {"worker": use}, measured_ms), measured_ms)


def test_where_nothing_is_advised_it_is_said_why() -> None:
    fits = RoleUse(1, cpus=Used(3, 3.5), memory_bytes=Used(4 * GB, 5 * GB))
    assert reason(fits) == "what it asked for fits what it used"
    assert "its GPUs were not measured" in reason(fits, gpus=2)
    assert reason(fits, measured_ms=70_000).startswith("it was measured for 70 s, and less than 5 minutes")
    assert reason(RoleUse(), measured_ms=0).startswith("nothing was measured")
    assert reason(RoleUse(1, cpus=Used(0.1, 0.1), memory_bytes=Used(GB, GB))) == ""


def test_processors_that_were_not_used_are_named() -> None:
    assert advice(RoleUse(1, cpus=Used(1.0, 2.5)), cpus=16) == (
        "each task asked for 16 CPUs and used at most 2.5 at a time: ask for 4"
    )
    assert advice(RoleUse(1, cpus=Used(1.0, 7.0)), cpus=8) == ""
    assert advice(RoleUse(1, cpus=Used(0.0, 0.0)), cpus=1) == ""


def test_gpus_that_did_nothing_or_waited_are_named() -> None:
    half = RoleUse(2, gpu_percent=Used(45, 99), gpus=8, gpus_unused=4)
    assert advice(half, gpus=4) == "4 of 8 GPUs did nothing all the time: ask for fewer"
    waits = RoleUse(2, cpus=Used(7.9, 8), gpu_percent=Used(20, 99), gpu_memory_percent=Used(5, 10), gpus=8)
    assert advice(waits, gpus=4).split("; ") == [
        "all 8 CPUs of each task were busy while its GPUs waited: ask for more CPUs",
        "GPUs were busy for 20 % of the time: use larger batches, load data faster, or ask for fewer",
        "GPU memory was used to 10 % at most: use larger batches, or GPUs with less memory",
    ]
    assert advice(RoleUse(2, gpu_percent=Used(90, 99), gpu_memory_percent=Used(80, 90), gpus=8), gpus=4) == ""


@pytest.mark.parametrize("use", [RoleUse(), RoleUse(3, gpus=0)])
def test_what_was_not_measured_leads_to_no_advice_and_no_share(use: RoleUse) -> None:
    role = TaskRole("worker", "image", Resources(8, 65_536, 4), ("true",))
    (found,) = efficiency_of([role], {"worker": use}, HOUR_MS)
    assert (found.advice, set(found.shares.values())) == ((), {None})


def test_a_job_that_has_just_started_gets_no_advice() -> None:
    use = RoleUse(1, memory_bytes=Used(GB, GB))
    assert advice(use, measured_ms=LEAST_MS - 1) == ""
    assert advice(use, measured_ms=LEAST_MS) != ""


def test_a_role_without_gpus_has_no_share_of_them() -> None:
    role = TaskRole("worker", "image", Resources(4, 1024, 0), ("true",))
    (found,) = efficiency_of([role], {"worker": RoleUse(1, cpus=Used(2, 3), gpu_percent=Used(50, 50))}, HOUR_MS)
    assert found.shares == {"cpu": 0.5, "memory": None, "gpu": None, "gpuMemory": None}


@given(st.floats(0.1, 1e7))
def test_rounding_never_names_less_and_less_than_twice_as_much(mb: float) -> None:
    found = rounded_up_mb(mb)
    assert mb <= found
    assert found == 64 or found < 2 * mb + 1
