"""Gauges and tallies add up to what a slow and simple count gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpai.scheduler.model import Node
from openpai.simulator.gauges import Gauge
from openpai.simulator.report import spread_of
from openpai.simulator.tally import Tally, typical_size
from tests.unit.simulator.clusters import MINUTE, job, trace


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(-5, 5)), max_size=20),
    st.integers(1, 30),
    st.integers(1, 12),
)
def test_a_gauge_is_the_mean_of_every_moment(steps: list[tuple[int, int]], bucket: int, spans: int) -> None:
    gauge = Gauge(bucket, spans)
    moments: list[int] = []
    now = level = 0
    for wait, change in steps:
        moments += [level] * wait
        now, level = now + wait, level + change
        gauge.add(change, now)
    moments += [level] * max(0, spans * bucket - now)
    expected = [sum(moments[at * bucket : (at + 1) * bucket]) / bucket for at in range(spans)]
    assert gauge.series() == pytest.approx(expected)
    assert gauge.mean() == pytest.approx(sum(expected) / spans)


def test_percentiles_are_times_that_occurred() -> None:
    found = spread_of(list(range(1000, 101_000, 1000)))
    assert (found.mean, found.p50, found.p95, found.p99, found.max) == (50.5, 50, 95, 99, 100)
    assert spread_of([]).max == 0


def test_free_gpus_in_small_pieces_count_while_a_job_waits() -> None:
    jobs = [job("a", 0, 1, 8), job("b", 0, 1, 6), job("end", 100, 1, 8)]
    tally = Tally(trace(*jobs), [Node("n0", 0, 0, 8), Node("n1", 0, 0, 8)], {"a": 16})
    assert tally.typical_gpus == 8
    tally.queue(jobs[1], 0)
    tally.start(jobs[1], [("n0", 6)], 0, is_first=True)
    tally.queue(jobs[0], 50 * MINUTE)
    tally.queue(jobs[2], 50 * MINUTE)
    tally.stop(jobs[1], [("n0", 6)], 75 * MINUTE)
    # Two GPUs of a node for a quarter of the time: before, nobody waits; after, they are part of a whole free node.
    assert tally.fragmented.mean() == pytest.approx(0.5)
    # The two jobs would have been served by the ten GPUs left, and then by sixteen.
    assert tally.vcs["a"].stranded.mean() == pytest.approx((10 + 16) / 4)


def test_the_typical_size_weighs_gpu_time() -> None:
    many_small = [job(f"s{at}", 0, 1, 1) for at in range(20)]
    assert typical_size(trace(*many_small, job("l", 0, 1, 16)), 8) == 1
    assert typical_size(trace(*many_small, job("l", 0, 2, 16)), 8) == 8
