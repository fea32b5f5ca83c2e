"""The newest samples of tasks, and their rates."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from time import monotonic

import pytest

from openpai.lifecycle.model import AttemptKey
from openpai.orchestrator.measuring import ASKED_S, NAMES_MAX, TaskMeasures
from openpai.ports.task_usage import Counters, Rates, TaskSample
from openpai.runtime.progress import Progress

KEY = AttemptKey("a" * 32, 0, "worker", 0, 0)


def sample(at_ms: int, cpu_s: float, read: int | None = None) -> TaskSample:
    return TaskSample(KEY, at_ms, Counters(cpu_s, read))


def test_rates_are_between_two_samples() -> None:
    measures = TaskMeasures()
    measures.learn([sample(1000, 1.0, 100)])
    assert measures.newest()[KEY].rates is None
    measures.learn([sample(3000, 4.0, 300)])
    assert measures.newest()[KEY].rates == Rates(1.5, 100.0)
    # Measured twice in a millisecond, and a clock that was set back.
    measures.learn([sample(3000, 4.0, 300)])
    assert measures.newest()[KEY].rates == Rates(1.5, 100.0)
    measures.learn([])
    assert measures.newest() == {}


async def test_jobs_that_are_watched_or_asked_about_are_measured_first(monkeypatch: pytest.MonkeyPatch) -> None:
    class Backend:
        def __init__(self) -> None:
            self.first: list[Collection[str]] = []

        def measure_first(self, jobs: Collection[str]) -> None:
            self.first.append(set(jobs))

        async def measure(self) -> tuple[TaskSample, ...]:
            if len(self.first) == 2:
                raise OSError("the end")
            measures.of_job("b")
            return ()

    measures, backend = TaskMeasures(), Backend()
    measures.watch(["a"])
    with pytest.raises(OSError, match="the end"):
        await measures.measure_forever(backend, period_s=0)
    assert backend.first == [{"a"}, {"a", "b"}]
    # A user who left is not waited for.
    now_s = monotonic() + ASKED_S + 1
    monkeypatch.setattr("openpai.orchestrator.measuring.monotonic", lambda: now_s)
    measures.watch(())
    assert measures.first() == set()


async def test_nothing_is_left_when_another_server_leads() -> None:
    class Backend:
        rounds = 0

        async def measure(self) -> tuple[TaskSample, ...]:
            self.rounds += 1
            if self.rounds == 3:
                raise OSError("the end")
            return (sample(self.rounds, 1.0),)

    measures = TaskMeasures()
    with pytest.raises(OSError, match="the end"):
        await measures.measure_forever(Backend(), period_s=0)
    assert measures.newest() == {}


def at_step(at_ms: int, step: float, index: int = 0, total: float | None = 100) -> TaskSample:
    key = AttemptKey("a" * 32, 0, "worker", index, 0)
    return TaskSample(key, at_ms, Counters(), progress=Progress(step, total), progress_at_ms=at_ms)


def test_rate_and_time_left_follow_from_the_steps_and_the_job_is_as_far_as_its_last_task() -> None:
    measures = TaskMeasures()
    measures.learn([at_step(1000, 10), at_step(1000, 30, 1)])
    assert measures.progress()["a" * 32].steps_per_s is None
    measures.learn([at_step(3000, 20), at_step(3000, 30, 1)])
    use = measures.progress()["a" * 32]
    assert (use.sample.key.index, use.steps_per_s, use.left_s) == (0, 5.0, 16.0)
    measures.learn([at_step(5000, 2)])
    assert measures.progress()["a" * 32].steps_per_s is None
    measures.learn([at_step(7000, 4, total=None)])
    assert (measures.progress()["a" * 32].steps_per_s, measures.progress()["a" * 32].left_s) == (1.0, None)
    measures.learn([])
    assert measures.progress() == {}


def test_a_job_reports_values_under_few_names_however_often_it_changes_them() -> None:
    measures = TaskMeasures()
    for turn in range(20):
        progress = Progress(turn, 100, {"loss": float(turn), f"made-up-{turn}": 1.0})
        measures.learn([replace(sample(turn, 0.0), progress=progress)])
        kept = {"loss": float(turn)} | ({f"made-up-{turn}": 1.0} if turn < NAMES_MAX - 1 else {})
        assert measures.reported(KEY.job) == kept
    assert measures.reported("b" * 32) == {}
    # What runs again after it had ended begins again.
    measures.learn([])
    measures.learn([replace(sample(1, 0.0), progress=Progress(1, 100, {"other": 2.0}))])
    assert measures.reported(KEY.job) == {"other": 2.0}
