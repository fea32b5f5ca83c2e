"""The newest round: gauges as they are, counters as rates, and no more series than the limits allow."""

from __future__ import annotations

import math

from openpai.series.labels import Labels, matching
from openpai.series.model import Reading
from openpai.series.rounds import Rounds


def labels(**values: str) -> Labels:
    return Labels.of(values)


def test_a_counter_becomes_a_rate_also_when_it_begins_again() -> None:
    rounds = Rounds()
    found = []
    for at_ms, total in ((10_000, 100.0), (20_000, 150.0), (30_000, 20.0)):
        rounds.learn([Reading(labels(), {"pai_commits_total": total, "pai_leads": 1.0})], at_ms)
        found.append([sample.value for sample in rounds.latest("pai_commits_total")])
    assert found == [[], [5.0], [2.0]]
    assert [sample.value for sample in rounds.latest("pai_leads")] == [1.0]


def test_series_that_are_not_measured_any_more_end() -> None:
    rounds = Rounds()
    rounds.learn([Reading(labels(node="n1"), {"pai_node_up": 1.0}), Reading(labels(node="n2"), {"pai_node_up": 1})], 1)
    assert [found.labels.get("node") for found in rounds.latest("pai_node_up", matching({"node": "n2"}))] == ["n2"]
    rounds.learn([Reading(labels(node="n1"), {"pai_node_up": math.nan})], 2)
    assert not list(rounds.latest("pai_node_up"))


def test_a_job_of_many_tasks_leaves_room_for_others() -> None:
    rounds = Rounds(series_max=30, job_series_max=10)
    many = [Reading(labels(job_name="eve~big", task_index=str(n)), {"task_processes": 1}) for n in range(10_000)]
    other = Reading(labels(job_name="ann~small"), {"task_processes": 2})
    now = rounds.learn([*many, other], 1)
    assert now.dropped == 9_990
    assert [found.value for found in rounds.latest("task_processes", matching({"job_name": "ann~small"}))] == [2]
    assert rounds.learn([Reading(labels(n=str(n)), {"pai_jobs": 1}) for n in range(100)], 2).dropped == 70
