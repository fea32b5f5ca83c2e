"""Measures the tasks in pods: a command in each container prints what it uses, every few seconds, over one connection.

It needs no right beside `pods/exec`, which shells have too; the kubelet's summary of a node would need `nodes/proxy`,
with which every pod of the cluster can be entered. There are bounds on the connections, and on how many are opened in
a round: more pods take turns, see `Turns`. What is never measured is not remembered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from openpai.backends.kubernetes.attempts import PodAttempt
from openpai.backends.kubernetes.measuring_turns import LOOKED_AT_AT_ONCE, Turns
from openpai.backends.kubernetes.pods import CONTAINER, PodOptions
from openpai.backends.kubernetes.variables import PROGRESS
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.exec import STDOUT
from openpai.lifecycle.model import AttemptKey
from openpai.ports.clock import Clock
from openpai.ports.task_usage import Counters, DeviceUse, TaskSample
from openpai.protocol.wording import harmless
from openpai.runtime.inspecting import (
    GpuUse,
    InsideSample,
    ProcessSummary,
    SampleReader,
    described,
    most_telling,
    read_processes,
    sample_words,
    stack_words,
)
from openpai.system.pauses import let_others_go_first
from openpai.system.supervision import background

log: Final = structlog.get_logger(__name__)
SESSIONS_MAX: Final = 300
OPENING_AT_ONCE: Final = 8
OPENING_S: Final = 10.0
PERIOD_S: Final = 5.0
SAMPLES: Final = 60
"""How many samples one connection brings; what a dead server began ends with it."""
SAMPLES_IN_TURN: Final = 6
FIRST_SHARE: Final = 0.8
"""The share of the connections that may stay with the jobs to be measured first."""
STALE_S: Final = 30.0
STACKS_AT_ONCE: Final = 16
STACKS_S: Final = 20.0
_STACK_BYTES: Final = 256 * 1024


class Notes(Protocol):
    """What writes messages of the platform to the logs of attempts."""

    async def note(self, key: AttemptKey, pod: str, text: str) -> None:
        """Write a message to the attempt's runtime log, if it can be written."""


@dataclass(slots=True)
class _Session:
    """A pod that is measured, or was."""

    task: asyncio.Task[None] | None = None
    sample: TaskSample | None = None
    gpus: tuple[GpuUse, ...] = ()
    is_open: bool = False


class PodMeasuring:
    """Takes samples of the tasks in the pods of one namespace."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        clock: Clock,
        options: PodOptions,
        *,
        period_s: float = PERIOD_S,
        sessions: int = SESSIONS_MAX,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._has_network = not options.host_network
        self._period_s = period_s
        self._max = sessions
        self._sessions: dict[str, _Session] = {}
        self._opening = asyncio.Semaphore(OPENING_AT_ONCE)
        self._turns = Turns()
        self._first: Collection[str] = ()
        self._has_said_why = False

    def measure_first(self, jobs: Collection[str]) -> None:
        """Measure the tasks of these jobs before those of others, and without pauses where they are not too many."""
        self._first = jobs

    async def measure(self, attempts: Iterable[PodAttempt]) -> tuple[TaskSample, ...]:
        """Return the newest sample of each running attempt, and go on measuring these and no others."""
        running: dict[str, PodAttempt] = {}
        for number, attempt in enumerate(attempts, start=1):
            if number % LOOKED_AT_AT_ONCE == 0:
                await let_others_go_first()
            if attempt.is_running:
                running[attempt.name] = attempt
        self._turns.forget([name for name in self._turns.remembered() if name not in running])
        for name in self._sessions.keys() - running.keys():
            self._forget(name)
        room = self._max - sum(session.task is not None for session in self._sessions.values())
        if room > 0:
            await self._begin(running, room)
        oldest_ms = self._clock.now_ms() - STALE_S * 1000
        found = (session.sample for session in self._sessions.values())
        return tuple([sample for sample in found if sample is not None and sample.at_ms >= oldest_ms])

    async def _begin(self, running: Mapping[str, PodAttempt], room: int) -> None:
        waiting = (each for name, each in running.items() if not self._is_measured(name))
        now_s = asyncio.get_running_loop().time()
        chosen = await self._turns.choose(waiting, room, now_s, self._first, self._measured_at_ms)
        is_few = len(running) <= self._max
        firsts = 0 if is_few else sum(each.key.job in self._first for each in running.values())
        for attempt in chosen:
            if not attempt.is_running:
                continue  # it ended while others were looked at
            stays = is_few or (attempt.key.job in self._first and firsts <= self._max * FIRST_SHARE)
            session = self._sessions.setdefault(attempt.name, _Session())
            follow = self._follow(attempt, session, SAMPLES if stays else SAMPLES_IN_TURN)
            session.task = background(f"use of {attempt.name}", follow)

    async def close(self) -> None:
        """End all measuring."""
        tasks = [session.task for session in self._sessions.values() if session.task is not None]
        for name in list(self._sessions):
            self._forget(name)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_measured(self, name: str) -> bool:
        session = self._sessions.get(name)
        return session is not None and session.task is not None

    def _measured_at_ms(self, name: str) -> int:
        session = self._sessions.get(name)
        return session.sample.at_ms if session is not None and session.sample is not None else 0

    def _forget(self, name: str) -> None:
        session = self._sessions.pop(name)
        if session.task is not None:
            session.task.cancel()

    async def _follow(self, attempt: PodAttempt, session: _Session, count: int) -> None:
        before, session.is_open = session.sample, False
        try:
            await self._read(attempt, session, count)
        except (KubeError, TimeoutError, ValueError) as error:
            was_measured = session.sample is not before
            now_s = asyncio.get_running_loop().time()
            self._turns.failed(attempt, now_s, was_opened=session.is_open, was_measured=was_measured)
            if not self._has_said_why:
                self._has_said_why = True
                log.warning("what a task uses cannot be measured", pod=attempt.name, error=str(error))
        finally:
            session.task = None
            if session.sample is None and self._sessions.get(attempt.name) is session:
                del self._sessions[attempt.name]

    async def _read(self, attempt: PodAttempt, session: _Session, count: int) -> None:
        words = sample_words(self._period_s, count, PROGRESS)
        async with self._opening, asyncio.timeout(OPENING_S):
            run = await self._client.exec(attempt.name, self._namespace, words, container=CONTAINER)
        session.is_open, is_first = True, True
        reader = SampleReader()
        async with run, asyncio.timeout(None) as deadline:
            outputs = aiter(run)
            while True:
                deadline.reschedule(asyncio.get_running_loop().time() + STALE_S)
                try:
                    piece = await anext(outputs)
                except StopAsyncIteration:
                    break
                for inside in reader.feed(piece.data) if piece.channel == STDOUT else ():
                    self._learn(attempt, session, inside)
                    if is_first:
                        is_first = False
                        self._turns.succeeded(attempt)
        if run.exit_code or is_first:
            what = "without a sample" if is_first else "early"
            raise ValueError(f"the command that measures ended {what}, with exit code {run.exit_code}")

    def _learn(self, attempt: PodAttempt, session: _Session, inside: InsideSample) -> None:
        now_ms = self._clock.now_ms()
        session.gpus = session.gpus if inside.gpus is None else inside.gpus
        received, sent = inside.network_received_bytes, inside.network_sent_bytes
        before = session.sample
        is_news = before is None or before.progress != inside.progress
        progress_at_ms = now_ms if is_news or before is None else before.progress_at_ms
        session.sample = TaskSample(
            attempt.key,
            now_ms,
            Counters(
                inside.cpu_s,
                inside.disk_read_bytes,
                inside.disk_written_bytes,
                received if self._has_network else None,
                sent if self._has_network else None,
            ),
            inside.memory_bytes,
            inside.processes,
            inside.stopped,
            _devices(attempt, session.gpus),
            inside.progress,
            progress_at_ms if inside.progress is not None else 0,
        )

    async def keep_stacks(
        self, attempts: Sequence[PodAttempt | None], notes: Notes | None
    ) -> dict[AttemptKey, ProcessSummary]:
        """Write what the processes of tasks do to their runtime logs; return it of each in short."""
        limit = asyncio.Semaphore(STACKS_AT_ONCE)
        found: dict[AttemptKey, ProcessSummary] = {}

        async def look(attempt: PodAttempt) -> None:
            async with limit:
                with contextlib.suppress(KubeError, TimeoutError):
                    async with asyncio.timeout(STACKS_S):
                        text, summary = await self._stacks(attempt)
                        if summary.text:
                            found[attempt.key] = summary
                        if text and notes is not None:
                            await notes.note(attempt.key, attempt.name, f"what its processes do now:\n{text}")

        await asyncio.gather(*(look(each) for each in attempts if each is not None and each.is_running))
        return found

    async def _stacks(self, attempt: PodAttempt) -> tuple[str, ProcessSummary]:
        pieces, size = [], 0
        async with await self._client.exec(attempt.name, self._namespace, stack_words(), container=CONTAINER) as run:
            async for piece in run:
                size += len(piece.data)
                if piece.channel == STDOUT and size <= _STACK_BYTES:
                    pieces.append(piece.data)
        processes = read_processes(b"".join(pieces).decode(errors="replace"))
        lines = []
        for process in processes:
            lines.append(described(process))
            lines += [f"    {harmless(line)}" for line in process.stack]
        return "\n".join(lines), most_telling(processes)


def _devices(attempt: PodAttempt, gpus: Sequence[GpuUse]) -> tuple[DeviceUse, ...]:
    """Return the GPUs that a container sees, with their numbers on the node where these are as many."""
    numbers = attempt.devices if len(attempt.devices) == len(gpus) else range(len(gpus))
    return tuple(
        DeviceUse(
            number, gpu.busy_percent, None, gpu.memory_bytes, gpu.memory_total_bytes, gpu.power_w, gpu.power_limit_w,
            gpu.temperature_c, is_slice=gpu.is_slice,
        )
        for number, gpu in zip(numbers, gpus, strict=True)
    )  # fmt: skip
