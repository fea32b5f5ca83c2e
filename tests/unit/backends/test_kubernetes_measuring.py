"""Pods are measured over few connections, in turns where there are many, and what cannot be measured is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, Self

from openpai.backends.kubernetes.attempts import PodAttempt
from openpai.backends.kubernetes.measuring import SAMPLES, SAMPLES_IN_TURN, PodMeasuring
from openpai.backends.kubernetes.measuring_turns import OPENED_FIRST
from openpai.backends.kubernetes.pods import PodOptions
from openpai.kube.errors import error_of
from openpai.kube.exec import Output
from openpai.lifecycle.model import AttemptKey
from openpai.ports.task_usage import TaskSample

SAMPLE: Final = b"cpu_ns 2000000000\nmemory 5\nnet eth0: 7 0 0 0 0 0 0 0 8 0\nprocesses 3\nprogress 1/4\nend\n"


class Run:
    """A command in a pod that prints what it is given."""

    def __init__(self, world: Cluster, pod: str) -> None:
        self.exit_code: int | None = None
        self._world = world
        self._pod = pod
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()

    def say(self, data: bytes) -> None:
        self._pieces.put_nowait(data)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._world.runs.pop(self._pod, None)

    async def __aiter__(self) -> AsyncIterator[Output]:
        while piece := await self._pieces.get():
            yield Output(1, piece)
        self.exit_code = 0


class Cluster:
    """The API server and the clock."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.asked: list[tuple[str, int]] = []
        self.broken = False
        self.at_ms = 1_000_000

    def now_ms(self) -> int:
        return self.at_ms

    async def exec(self, pod: str, namespace: str, words: Sequence[str], *, container: str) -> Run:
        self.asked.append((pod, int(words[-2])))
        if self.broken:
            raise error_of("run", 403, b"forbidden")
        run = self.runs[pod] = Run(self, pod)
        return run


def attempts(*names: str) -> list[PodAttempt]:
    keys = [AttemptKey(name * 32, 0, "worker", 0, 0) for name in names]
    return [PodAttempt(key, name, node=f"node-{name}", started_at_ms=1) for key, name in zip(keys, names, strict=True)]


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def a_measuring(cluster: Cluster, sessions: int = 300, *, has_network: bool = True) -> PodMeasuring:
    client: Any = cluster
    return PodMeasuring(client, "n", cluster, PodOptions(host_network=not has_network), sessions=sessions)


async def measured(of: PodMeasuring, *names: str) -> tuple[TaskSample, ...]:
    found = await of.measure(attempts(*names))
    await settled()
    return found


async def test_a_decision_need_not_wait_while_thousands_of_pods_are_looked_at() -> None:
    pods = a_measuring(Cluster(), sessions=1)
    measuring = asyncio.create_task(pods.measure(attempts(*(f"p{number}" for number in range(5000)))))
    turns = 0
    while not measuring.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 5
    await pods.close()


async def test_a_pod_is_measured_over_one_connection() -> None:
    cluster = Cluster()
    pods = a_measuring(cluster)
    assert await measured(pods, "a") == ()
    cluster.runs["a"].say(SAMPLE[:20])
    cluster.runs["a"].say(SAMPLE[20:])
    await settled()
    (sample,) = await measured(pods, "a")
    assert (sample.counters.cpu_s, sample.memory_bytes, sample.processes) == (2.0, 5, 3)
    assert (sample.counters.network_received_bytes, sample.counters.network_sent_bytes) == (7, 8)
    assert (sample.progress_at_ms, cluster.asked) == (1_000_000, [("a", SAMPLES)])
    cluster.at_ms += 5000
    cluster.runs["a"].say(SAMPLE)
    await settled()
    (sample,) = await measured(pods, "a")
    # It says again what it said before.
    assert (sample.at_ms, sample.progress_at_ms) == (1_005_000, 1_000_000)
    cluster.at_ms += 31_000
    assert await measured(pods, "a") == ()
    # The command ends after its samples, and the next one goes on.
    cluster.runs["a"].say(b"")
    await settled()
    await measured(pods, "a")
    assert len(cluster.asked) == 2
    await measured(pods)
    assert cluster.runs == {}
    await pods.close()


async def test_more_pods_than_connections_take_turns() -> None:
    cluster = Cluster()
    pods = a_measuring(cluster, sessions=2, has_network=False)
    await measured(pods, "a", "b", "c", "d")
    assert cluster.asked == [("a", SAMPLES_IN_TURN), ("b", SAMPLES_IN_TURN)]
    for name in ("a", "b"):
        cluster.runs[name].say(SAMPLE)
        cluster.runs[name].say(b"")
    await settled()
    found = await measured(pods, "a", "b", "c", "d")
    assert [pod for pod, _ in cluster.asked] == ["a", "b", "c", "d"]
    assert {sample.counters.network_sent_bytes for sample in found} == {None}
    await pods.close()


async def test_a_pod_that_cannot_be_entered_is_tried_less_and_less_often() -> None:
    cluster = Cluster()
    cluster.broken = True
    pods = a_measuring(cluster)
    for _ in range(5):
        assert await measured(pods, "a") == ()
    assert len(cluster.asked) == 1
    await pods.close()


async def test_where_no_pod_can_be_entered_a_round_tries_one_of_a_thousand() -> None:
    cluster = Cluster()
    cluster.broken = True
    pods = a_measuring(cluster)
    names = [f"{number:04}" for number in range(1000)]
    of_round = []
    for _ in range(12):
        before = len(cluster.asked)
        assert await measured(pods, *names) == ()
        of_round.append(len(cluster.asked) - before)
    assert (of_round[0], set(of_round[1:])) == (OPENED_FIRST, {1})
    # None is tried twice, and none but those that were tried is remembered.
    assert len(set(cluster.asked)) == len(cluster.asked) == len(pods._turns.remembered())
    assert pods._sessions == {}
    await measured(pods)
    assert not pods._turns.remembered()
    # Each that can be entered again lets one more be tried.
    cluster.broken = False
    for _ in range(5):
        await measured(pods, *names)
        for run in list(cluster.runs.values()):
            run.say(SAMPLE)
        await settled()
    assert len(cluster.runs) == 1 + 2 + 4 + 8 + 16
    await pods.close()


async def test_a_command_that_prints_nothing_is_not_started_again_at_once() -> None:
    cluster = Cluster()
    pods = a_measuring(cluster)
    for _ in range(3):
        await measured(pods, "a")
        for run in list(cluster.runs.values()):
            run.say(b"")
        await settled()
    assert len(cluster.asked) == 1
    await pods.close()


async def test_jobs_that_are_waited_for_are_measured_first_and_without_pauses() -> None:
    cluster = Cluster()
    pods = a_measuring(cluster, sessions=2)
    pods.measure_first({"d" * 32})
    await measured(pods, "a", "b", "c", "d")
    assert cluster.asked == [("d", SAMPLES), ("a", SAMPLES_IN_TURN)]
    await pods.close()


async def test_an_answer_without_an_end_is_given_up() -> None:
    cluster = Cluster()
    pods = a_measuring(cluster)
    await measured(pods, "a")
    cluster.runs["a"].say(b"x" * 300_000)
    await settled()
    assert await measured(pods, "a") == ()
    assert (len(cluster.asked), cluster.runs) == (1, {})
    await pods.close()
