"""Measures the running tasks every few seconds, keeps the newest sample of each, and passes every round on.

Which is all that is kept here: the file of metrics keeps the past.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Final

from openpai.lifecycle.model import AttemptKey
from openpai.ports.task_usage import MeasuresInTurns, MeasuresTasks, Rates, TaskSample, TaskUse

PERIOD_S: Final = 5.0
Complete = Callable[[Sequence[TaskSample]], Awaitable[Sequence[TaskSample]]]
STEPS_KEPT: Final = 60
ASKED_S: Final = 60.0
"""For how long a job is measured before others after a user asked for its use."""
_SHARE: Final = 100
"""A round may take one in so many parts of the time, so that many tasks are measured less often."""
NAMES_MAX: Final = 8
"""Values of a job that are kept over time."""


class TaskMeasures:
    """`ports.task_usage.TaskUsage`, of one backend."""

    def __init__(self) -> None:
        self._newest: dict[AttemptKey, TaskUse] = {}
        self._steps: dict[AttemptKey, deque[tuple[int, float]]] = {}
        """When each task had made which steps."""
        self._progress: dict[str, TaskUse] = {}
        self._names: dict[str, list[str]] = {}
        """The first names under which each job reported values."""
        self._watched: frozenset[str] = frozenset()
        self._asked_s: dict[str, float] = {}
        """When users asked for the use of jobs, on the monotonic clock."""

    def newest(self) -> Mapping[AttemptKey, TaskUse]:
        return self._newest

    def progress(self) -> Mapping[str, TaskUse]:
        return self._progress

    def reported(self, job: str) -> Mapping[str, float]:
        """Return the values, such as its loss, that the task of a job that is least far reported last.

        They have at most eight names over all the time, so that a job cannot make series without end.
        """
        use = self._progress.get(job)
        if use is None or use.sample.progress is None:
            return {}
        found, names = use.sample.progress.metrics, self._names.setdefault(job, [])
        names += [name for name in found if name not in names][: NAMES_MAX - len(names)]
        return {name: found[name] for name in names if name in found}

    def of_job(self, job: str) -> tuple[TaskUse, ...]:
        """Return what the running tasks of a job use, which is measured before others for the next minute."""
        self._asked_s[job] = monotonic()
        return tuple(use for key, use in self._newest.items() if key.job == job)

    def watch(self, jobs: Iterable[str]) -> None:
        self._watched = frozenset(jobs)

    def first(self) -> frozenset[str]:
        """Return the ids of the jobs to be measured before others."""
        oldest_s = monotonic() - ASKED_S
        self._asked_s = {job: at_s for job, at_s in self._asked_s.items() if at_s >= oldest_s}
        return self._watched.union(self._asked_s)

    def learn(self, samples: Sequence[TaskSample]) -> None:
        """Keep these samples as the newest, with the rates since those before."""
        uses = (_use(self._newest.get(sample.key), sample) for sample in samples)
        self._newest = {use.sample.key: replace(use, steps_per_s=self._pace(use.sample)) for use in uses}
        self._steps = {key: steps for key, steps in self._steps.items() if key in self._newest}
        running = {key.job for key in self._newest}
        self._names = {job: names for job, names in self._names.items() if job in running}
        self._progress = {}
        for use in self._newest.values():
            job = use.sample.key.job
            if use.sample.progress and (job not in self._progress or _share(use) < _share(self._progress[job])):
                self._progress[job] = use

    def forget(self) -> None:
        """Keep nothing, because another server leads now."""
        self._newest, self._steps, self._progress = {}, {}, {}

    async def measure_forever(
        self, backend: MeasuresTasks, complete: Complete | None = None, period_s: float = PERIOD_S
    ) -> None:
        """Measure periodically; `complete` adds to the samples what the backend cannot know."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                began_s = loop.time()
                if isinstance(backend, MeasuresInTurns):
                    backend.measure_first(self.first())
                samples = await backend.measure()
                self.learn(await complete(samples) if complete is not None else samples)
                await asyncio.sleep(max(period_s, _SHARE * (loop.time() - began_s)))
        finally:
            self.forget()

    def _pace(self, sample: TaskSample) -> float | None:
        if sample.progress is None:
            return None
        steps = self._steps.setdefault(sample.key, deque(maxlen=STEPS_KEPT))
        step = sample.progress.step
        if steps and step < steps[-1][1]:
            # It began again, as with the next epoch.
            steps.clear()
        if not steps or step > steps[-1][1]:
            steps.append((sample.progress_at_ms, step))
        (first_ms, first), (last_ms, last) = steps[0], steps[-1]
        return (last - first) / (last_ms - first_ms) * 1000 if last_ms > first_ms else None


def _share(use: TaskUse) -> float:
    progress = use.sample.progress
    return 0.0 if progress is None else progress.step / (progress.total or 1.0)


def _use(before: TaskUse | None, sample: TaskSample) -> TaskUse:
    if before is None or sample.at_ms <= before.sample.at_ms:
        return TaskUse(sample, None if before is None else before.rates)
    past_s = (sample.at_ms - before.sample.at_ms) / 1000
    was, now = before.sample.counters, sample.counters
    return TaskUse(
        sample,
        Rates(
            max(0.0, now.cpu_s - was.cpu_s) / past_s,
            _per_s(was.disk_read_bytes, now.disk_read_bytes, past_s),
            _per_s(was.disk_written_bytes, now.disk_written_bytes, past_s),
            _per_s(was.network_received_bytes, now.network_received_bytes, past_s),
            _per_s(was.network_sent_bytes, now.network_sent_bytes, past_s),
        ),
    )


def _per_s(was: int | None, now: int | None, past_s: float) -> float | None:
    return None if was is None or now is None else max(0, now - was) / past_s
