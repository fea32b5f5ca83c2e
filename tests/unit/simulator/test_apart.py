"""Replays in a process of their own: the same as here, ended at their limit, and refused in words."""

from __future__ import annotations

import pytest

from openpai.protocol.errors import Refused
from openpai.simulator import apart
from openpai.simulator.apart import compare_apart
from openpai.simulator.cluster import generated
from tests.unit.simulator.clusters import job, trace

CONFIG = generated(2, {"a": 1, "b": 1}).text
JOBS = trace(*[job(f"j{number}", number, 60, 8) for number in range(6)])


async def test_more_gpus_shorten_the_wait() -> None:
    now, then = await compare_apart(CONFIG, JOBS, "a=+8")
    assert [report.total.jobs for report in (now, then)] == [6, 6]
    assert then.total.delay_s.mean < now.total.delay_s.mean
    assert then.notes == ("a has 8 GPUs more; 1 node was added to the cluster",)


async def test_a_change_that_cannot_be_made_is_refused_as_it_would_be_here() -> None:
    with pytest.raises(Refused) as refused:
        await compare_apart(CONFIG, JOBS, "nobody=+8")
    assert refused.value.code == "NoVirtualClusterError"


async def test_a_replay_ends_at_its_limit() -> None:
    with pytest.raises(Refused, match="did not end within 0 s"):
        await compare_apart(CONFIG, JOBS, "a=+8", limit_s=0.001)


async def test_a_process_that_dies_is_a_fault_of_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart.sys, "executable", "/bin/false")
    with pytest.raises(apart.Broken, match="ended with code 1"):
        await compare_apart(CONFIG, JOBS, "a=+8")
