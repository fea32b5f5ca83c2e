"""The simulated cluster under virtual time: faults on the way, nodes that die, servers that come and go."""

from __future__ import annotations

from collections.abc import Sequence

from openpai.backends.simulated.backend import SimulatedBackend, virtual_nodes
from openpai.backends.simulated.cluster import Faults
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from openpai.ports.backend import Action, ForgetTask, KillTask, LaunchTask, TaskSeen
from tests.faulty_cluster import FaultyCluster


class HandClock:
    """Returns the time that a test has set."""

    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms


class Scripted(Faults):
    """Delays by the kind of message; a launch fails while `broken` is set."""

    def __init__(self) -> None:
        self.actions: dict[type, Sequence[int]] = {}
        self.ends: Sequence[int] = (0,)
        self.broken: ExitReport | None = None

    def delays_of_action(self, action: Action) -> Sequence[int]:
        return self.actions.get(type(action), (0,))

    def delays_of_news(self, seen: TaskSeen) -> Sequence[int]:
        return self.ends if seen.exit else (0,)

    def launch_failure(self, launch: LaunchTask) -> ExitReport | None:
        return self.broken


class Scene:
    """A cluster, its time, and one server."""

    def __init__(self) -> None:
        self.faults = Scripted()
        self.clock = HandClock()
        self.printed: list[tuple[AttemptKey, str]] = []
        self.cluster = FaultyCluster(
            virtual_nodes(2, 4), faults=self.faults, say=lambda key, text: self.printed.append((key, text))
        )
        self.server = SimulatedBackend(self.cluster, self.clock, is_driven=True)

    def at(self, ms: int) -> tuple[TaskSeen, ...]:
        """Go to `ms` and return the news until then."""
        self.clock.ms = ms
        self.server.advance_to(ms)
        return self.server._opened().take()


def a_key(index: int = 0) -> AttemptKey:
    return AttemptKey("job", 0, "w", index, 0)


def a_launch(commands: str = "sleep 1", *, index: int = 0, grant: int = 1, devices: tuple[int, ...] = ()) -> LaunchTask:
    return LaunchTask(a_key(index), grant, "node-01", devices, 1, 64, "image", commands)


def exits(news: Sequence[TaskSeen]) -> list[tuple[int, ExitReason]]:
    return [(seen.exit.code, seen.exit.reason) for seen in news if seen.exit]


async def opened() -> Scene:
    scene = Scene()
    await scene.server.open()
    return scene


async def test_a_task_runs_for_as_long_as_it_says_and_nothing_happens_by_itself() -> None:
    scene = await opened()
    await scene.server.apply([a_launch("echo a\nsleep 1\necho b\nexit 3")])
    assert [seen.exit for seen in scene.at(999)] == [None]
    assert scene.printed == [(a_key(), ""), (a_key(), "a\n")]
    (over,) = scene.at(5000)
    assert over.exit == ExitReport(3, started_at_ms=0, ended_at_ms=1000)
    assert scene.printed[2:] == [(a_key(), "b\n")]


async def test_a_lost_launch_never_runs_and_a_kill_says_so() -> None:
    scene = await opened()
    scene.faults.actions = {LaunchTask: ()}
    await scene.server.apply([a_launch()])
    assert scene.at(9000) == ()
    await scene.server.apply([KillTask(a_key())])
    assert exits(scene.at(9000)) == [(143, ExitReason.ABSENT)]


async def test_a_launch_that_arrives_after_its_kill_does_not_run() -> None:
    scene = await opened()
    scene.faults.actions = {LaunchTask: (500,)}
    await scene.server.apply([a_launch(), KillTask(a_key())])
    assert exits(scene.at(100)) == [(143, ExitReason.ABSENT)]
    await scene.server.apply([ForgetTask(a_key())])
    assert exits(scene.at(9000)) == [(143, ExitReason.ABSENT)]
    assert scene.cluster.running() == ()


async def test_a_launch_that_arrives_twice_runs_once() -> None:
    scene = await opened()
    scene.faults.actions = {LaunchTask: (0, 5000)}
    await scene.server.apply([a_launch("sleep 1")])
    assert exits(scene.at(2000)) == [(0, ExitReason.EXITED)]
    assert exits(scene.at(6000)) == [(0, ExitReason.EXITED)]
    assert (await scene.server.observe())[0].exit == ExitReport(0, started_at_ms=0, ended_at_ms=1000)


async def test_a_late_launch_does_not_displace_a_newer_grant() -> None:
    scene = await opened()
    scene.faults.actions = {LaunchTask: (500,)}
    await scene.server.apply([a_launch(index=0, grant=1, devices=(2, 3))])
    scene.faults.actions = {}
    await scene.server.apply([a_launch("sleep 100", index=1, grant=2, devices=(3,))])
    news = scene.at(1000)
    assert exits(news) == [(1, ExitReason.STALE_GRANT)]
    assert [task.key for task in scene.cluster.running()] == [a_key(1)]


async def test_news_may_be_lost_or_doubled_but_can_be_seen() -> None:
    scene = await opened()
    scene.faults.ends = ()
    await scene.server.apply([a_launch("exit 5")])
    assert exits(scene.at(1)) == []
    assert exits(await scene.server.observe()) == [(5, ExitReason.EXITED)]
    scene.faults.ends = (300, 100)
    await scene.server.apply([a_launch("exit 6", index=1)])
    assert len(exits(scene.at(500))) == 2


class Keys(list[AttemptKey]):
    """Keys in which nothing is searched, since a search for each of thousands of tasks takes seconds."""

    def __contains__(self, key: object) -> bool:
        raise AssertionError(f"{key} is searched in a list")


async def test_tasks_that_are_asked_for_are_found_by_their_keys() -> None:
    scene = await opened()
    await scene.server.apply([a_launch(index=index, grant=index + 1) for index in range(3)])
    assert [seen.key for seen in await scene.server.observe(Keys([a_key(2), a_key(9), a_key(0)]))] == [
        a_key(2),
        a_key(0),
    ]


async def test_news_overtake_each_other() -> None:
    scene = await opened()
    scene.faults.ends = (1000,)
    await scene.server.apply([a_launch("exit 1", index=0)])
    scene.at(1)
    scene.faults.ends = (0,)
    await scene.server.apply([a_launch("exit 2", index=1)])
    assert [code for code, _ in exits(scene.at(5000))] == [2, 1]


async def test_a_node_dies_with_its_tasks_and_comes_back_empty() -> None:
    scene = await opened()
    await scene.server.apply([a_launch("sleep 100")])
    scene.cluster.kill_node("node-01", 10)
    assert exits(scene.at(10)) == [(137, ExitReason.LOST)]
    assert [node.is_healthy for node in await scene.server.nodes()] == [False, True]
    await scene.server.apply([a_launch(index=1)])
    assert exits(scene.at(20)) == [(1, ExitReason.LAUNCH_FAILED)]
    scene.cluster.revive_node("node-01", 30)
    await scene.server.apply([a_launch("true", index=2)])
    assert exits(scene.at(40)) == [(0, ExitReason.EXITED)]


async def test_a_failing_launch_reports_what_it_is_given() -> None:
    scene = await opened()
    scene.faults.broken = ExitReport(1, ExitReason.IMAGE_MISSING, "no such image")
    await scene.server.apply([a_launch()])
    assert exits(scene.at(0)) == [(1, ExitReason.IMAGE_MISSING)]


async def test_grace_is_given_and_ends() -> None:
    scene = await opened()
    await scene.server.apply([a_launch("trap '' TERM\nsleep infinity")])
    scene.at(100)
    await scene.server.apply([KillTask(a_key(), grace_s=5.0)])
    assert scene.at(5099) == ()
    assert exits(scene.at(5100)) == [(137, ExitReason.EXITED)]


async def test_a_trap_may_take_its_time_but_not_more_than_the_grace() -> None:
    scene = await opened()
    await scene.server.apply([a_launch("trap 'sleep 3; exit 9' TERM\nsleep 100", index=index) for index in range(2)])
    await scene.server.apply([KillTask(a_key(0), grace_s=5.0), KillTask(a_key(1), grace_s=1.0)])
    assert exits(scene.at(6000)) == [(137, ExitReason.EXITED), (9, ExitReason.EXITED)]


async def test_a_second_server_finds_what_the_first_left_and_the_first_gets_no_more_news() -> None:
    scene = await opened()
    await scene.server.apply([a_launch("sleep 1; exit 4"), a_launch("sleep 9", index=1)])
    scene.server.disconnect()
    second = SimulatedBackend(scene.cluster, scene.clock, is_driven=True)
    scene.clock.ms = 2000
    await second.open()
    assert {seen.key: seen.exit and seen.exit.code for seen in second._opened().take()} == {a_key(0): 4, a_key(1): None}


async def test_two_servers_at_once_both_get_news() -> None:
    scene = await opened()
    second = SimulatedBackend(scene.cluster, scene.clock, is_driven=True)
    await second.open()
    await second.apply([a_launch("exit 4")])
    assert exits(scene.at(10)) == exits(second._opened().take()) == [(4, ExitReason.EXITED)]


async def test_an_unknown_node_or_device_is_refused() -> None:
    scene = await opened()
    await scene.server.apply([a_launch(devices=(4,))])
    (seen,) = scene.at(0)
    assert seen.exit is not None
    assert seen.exit.reason is ExitReason.LAUNCH_REFUSED


async def test_the_use_of_running_tasks_is_imitated() -> None:
    scene = await opened()
    await scene.server.apply([a_launch("sleep 9", devices=(2,))])
    assert len(scene.at(4000)) == 1
    (sample,) = await scene.server.measure()
    # Half of one processor, of 64 MiB and of a GPU.
    assert (sample.counters.cpu_s, sample.memory_bytes) == (2.0, 32 << 20)
    assert [(device.index, device.busy_percent) for device in sample.devices] == [(2, 50.0)]
    scene.at(20_000)
    assert await scene.server.measure() == ()
