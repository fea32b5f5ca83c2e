"""Measures the running tasks every few seconds, keeps the newest sample of each, and passes every round on.

Which is all that is kept here: monitoring keeps the past, and gets each round through `on_samples`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from openpai.lifecycle.model import AttemptKey
from openpai.ports.task_usage import MeasuresTasks, Rates, TaskSample, TaskUse
from openpai.system.supervision import note_failure

PERIOD_S: Final = 5.0
_SHARE: Final = 100
"""A round may take one in so many parts of the time, so that many tasks are measured less often."""


class TaskMeasures:
    """`ports.task_usage.TaskUsage`, of one backend."""

    def __init__(self) -> None:
        self._newest: dict[AttemptKey, TaskUse] = {}
        self._takers: list[Callable[[Sequence[TaskUse]], None]] = []

    def newest(self) -> Mapping[AttemptKey, TaskUse]:
        return self._newest

    def on_samples(self, take: Callable[[Sequence[TaskUse]], None]) -> None:
        self._takers.append(take)

    def learn(self, samples: Sequence[TaskSample]) -> None:
        """Keep these samples as the newest, with the rates since those before, and pass them on."""
        self._newest = {sample.key: _use(self._newest.get(sample.key), sample) for sample in samples}
        for take in self._takers:
            try:
                take(tuple(self._newest.values()))
            except Exception as error:
                note_failure("pass on what tasks use", error)

    def forget(self) -> None:
        """Keep nothing, because another server leads now."""
        self._newest = {}

    async def measure_forever(self, backend: MeasuresTasks, period_s: float = PERIOD_S) -> None:
        """Measure periodically."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                began_s = loop.time()
                self.learn(await backend.measure())
                await asyncio.sleep(max(period_s, _SHARE * (loop.time() - began_s)))
        finally:
            self.forget()


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
