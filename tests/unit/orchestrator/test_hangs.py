"""A job that hangs is reported once with the task to blame, and restarted as often as it allows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from openpai.lifecycle.model import AttemptKey
from openpai.lifecycle.rescaling import RoleScale
from openpai.orchestrator.hangs import UNKNOWN_MS, HangWatch, watch_hangs
from openpai.orchestrator.measuring import TaskMeasures
from openpai.ports.cluster_settings import ORDERS
from openpai.ports.task_usage import Counters, TaskSample
from openpai.runtime.inspecting import ProcessSummary
from openpai.runtime.progress import Progress
from tests.unit.orchestrator.servers import Servers, live


class Hanging:
    """What the tasks of a job show, five seconds after the last look."""

    def __init__(self, servers: Servers) -> None:
        self.watch = HangWatch()
        self.at_ms = 0
        self.sent: int | None = None
        """The network counter of the tasks; None: they share the network of their node."""
        self.cpu_s = 0.0
        self.summary = ProcessSummary("process 7 (train) is stopped")
        self.stacks: list[Sequence[AttemptKey]] = []
        self._servers = servers

    async def look(
        self,
        job: str,
        attempt: int,
        *,
        times: int,
        stopped: int | None = None,
        tasks: int = 1,
        turns: int = 1,
        reports: bool = False,
    ) -> None:
        """Look so often; of the tasks, every `turns`-th is measured at a time."""
        leader = self._servers.leader
        leader.measures = leader.measures or TaskMeasures()
        leader.backend.keep_stacks = self._keep_stacks  # type: ignore[attr-defined]
        for turn in range(times):
            self.at_ms += 5_000
            self.cpu_s += 5.0
            samples = [
                TaskSample(
                    AttemptKey(job, attempt, "worker", index, 0), self.at_ms,
                    Counters(0.0 if index == stopped else self.cpu_s, network_sent_bytes=self.sent),
                    stopped=int(index == stopped),
                    progress=Progress(self.cpu_s) if reports else None,
                )
                for index in range(turn % turns, tasks, turns)
            ]  # fmt: skip
            assert isinstance(leader.measures, TaskMeasures)
            leader.measures.learn(samples)
            await watch_hangs(leader, self.watch)

    async def _keep_stacks(self, keys: Sequence[AttemptKey]) -> dict[AttemptKey, ProcessSummary]:
        self.stacks.append(keys)
        return dict.fromkeys(keys, self.summary)


async def hangs_of(servers: Servers, job: str) -> list[str]:
    return [
        found.event.message for found in await servers.queries.events(job, None) if found.event.reason == "JobHangs"
    ]


def test_it_is_reported_once_and_restarted_within_its_limit() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("train", extras={"hangDetection": {"minutes": 1, "restarts": 1}})
        await servers.submit("other")
        for name in ("train", "other"):
            await servers.in_phase(name, "running")
        row = await servers.row("train")
        hanging = Hanging(servers)
        await hanging.look(row.id, 0, times=20)
        assert await hangs_of(servers, row.id) == []
        await hanging.look(row.id, 0, times=14, stopped=0)
        (message,) = await hangs_of(servers, row.id)
        assert "task worker-0 hangs, for 1 min" in message
        assert "process 7 (train) is stopped" in message
        assert len(hanging.stacks) == 1
        await servers.until(lambda: _attempt(servers, 1))
        await servers.in_phase("train", "running")
        await hanging.look(row.id, 1, times=20, stopped=0)
        assert len(await hangs_of(servers, row.id)) == 2
        assert (await servers.row("train")).attempt == 1
        assert (await servers.row("other")).attempt == 0

    live(story)


def test_a_job_that_does_not_say_is_watched_by_the_default_of_its_virtual_cluster() -> None:
    async def story(servers: Servers) -> None:
        body = {"orders": {}, "hangMinutes": {"default": 1}}
        await servers.settings.set_setting(ORDERS, body, by="root", at_ms=0, version=None)
        await servers.commands.limits_changed()
        await servers.submit("train")
        await servers.submit("off", extras={"hangDetection": {"minutes": 0}})
        for name in ("train", "off"):
            await servers.in_phase(name, "running")
        rows = {name: await servers.row(name) for name in ("train", "off")}
        for row in rows.values():
            await Hanging(servers).look(row.id, 0, times=14, stopped=0)
        assert len(await hangs_of(servers, rows["train"].id)) == 1
        assert await hangs_of(servers, rows["off"].id) == []

    live(story)


def test_a_decision_need_not_wait_until_thousands_of_jobs_were_looked_at() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("train", extras={"hangDetection": {"minutes": 1}})
        await servers.in_phase("train", "running")
        leader = servers.leader
        leader.measures = TaskMeasures()
        (record,) = leader.active.records.values()
        leader.active.records |= {f"job-{number}": record for number in range(1_000)}
        looking = asyncio.create_task(watch_hangs(leader, HangWatch()))
        turns = 0
        while not looking.done():
            await asyncio.sleep(0.001)
            turns += 1
        await looking
        for number in range(1_000):
            del leader.active.records[f"job-{number}"]
        assert turns > 10

    live(story)


def test_tasks_that_are_ended_do_not_count() -> None:
    async def story(servers: Servers) -> None:
        extras = {"hangDetection": {"minutes": 1, "restarts": 1}, "gracePeriodSeconds": 600}
        await servers.submit("train", command="trap '' TERM; sleep 100000", instances=3, extras=extras)
        await servers.in_phase("train", "running")
        row = await servers.row("train")
        await servers.commands.rescale("ann", "train", {"worker": RoleScale(2)}, "ann")
        hanging = Hanging(servers)
        # The task that was removed is stopped, and is not to blame.
        await hanging.look(row.id, 0, times=20, stopped=2, tasks=3)
        assert await hangs_of(servers, row.id) == []
        # Of the others, which are measured, one is.
        await hanging.look(row.id, 0, times=14, stopped=1, tasks=2)
        (message,) = await hangs_of(servers, row.id)
        assert "task worker-1 hangs" in message

    live(story)


def test_a_job_that_was_stopped_is_not_restarted_because_its_tasks_save_their_work_quietly() -> None:
    async def story(servers: Servers) -> None:
        extras = {"hangDetection": {"minutes": 1, "restarts": 1}, "gracePeriodSeconds": 600}
        await servers.submit("train", command="trap '' TERM; sleep 100000", extras=extras)
        await servers.in_phase("train", "running")
        row = await servers.row("train")
        await servers.commands.stop("ann", "train", "ann")
        await Hanging(servers).look(row.id, 0, times=40, stopped=0)
        assert await hangs_of(servers, row.id) == []
        assert (await servers.row("train")).is_stop_requested

    live(story)


def test_tasks_that_are_measured_in_turns_are_judged_too() -> None:
    async def story(servers: Servers) -> None:
        extras = {"hangDetection": {"minutes": 1}}
        await servers.submit("train", instances=4, gpus=0, extras=extras)
        await servers.in_phase("train", "running")
        row, hanging = await servers.row("train"), Hanging(servers)
        await hanging.look(row.id, 0, times=60, tasks=4, turns=4)
        assert await hangs_of(servers, row.id) == []
        await hanging.look(row.id, 0, times=24, tasks=4, turns=4, stopped=2)
        (message,) = await hangs_of(servers, row.id)
        assert "task worker-2 hangs" in message

    live(story)


def test_a_job_with_a_task_that_cannot_be_measured_says_that_it_is_not_watched() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("train", instances=2, extras={"hangDetection": {"minutes": 1}})
        await servers.in_phase("train", "running")
        row, hanging = await servers.row("train"), Hanging(servers)
        await hanging.look(row.id, 0, times=1)
        hanging.watch.since_ms = {key: at_ms - UNKNOWN_MS for key, at_ms in hanging.watch.since_ms.items()}
        await hanging.look(row.id, 0, times=3)
        found = [one.event.message for one in await servers.events("train") if one.event.reason == "HangsNotWatched"]
        assert found == ["hangs of this job are not found now: task worker-1 could not be measured for 15 minutes"]

    live(story)


def test_ranks_that_spin_in_a_collective_operation_are_found_by_their_stacks() -> None:
    async def story(servers: Servers) -> None:
        for name, is_waiting in (("stuck", True), ("works", False)):
            await servers.submit(name, instances=2, gpus=0, extras={"hangDetection": {"minutes": 1}})
            await servers.in_phase(name, "running")
            row, hanging = await servers.row(name), Hanging(servers)
            # Only the operation counts: a program may write anything into its command line.
            hanging.summary = ProcessSummary("process 7 (; it waits in barrier)", "all_reduce" * is_waiting)
            # They report for a while, and spin from then on.
            await hanging.look(row.id, 0, times=6, tasks=2, reports=True)
            await hanging.look(row.id, 0, times=20, tasks=2)
            messages = await hangs_of(servers, row.id)
            assert len(messages) == is_waiting
            # Three looks agree, or there is none for another while.
            assert len(hanging.stacks) == 3
            if messages:
                assert "all of them wait in all_reduce" in messages[0]
                assert "without output or progress" in messages[0]

    live(story)


class Ras:
    """The connection to a rank's RAS."""

    def __init__(self) -> None:
        self.answers = [b"SERVER PROTOCOL 2\n", b"OK\n", b"Warnings\n========\n6 ranks are behind\n", b""]

    async def read(self) -> bytes:
        return self.answers.pop(0)

    async def write(self, data: bytes) -> None:
        pass

    async def close(self) -> None:
        pass


def test_nccl_is_asked_where_a_task_has_a_network_of_its_own() -> None:
    async def story(servers: Servers) -> None:
        asked: list[int] = []

        async def connect(key: AttemptKey, port: int) -> Ras:
            asked.append(port)
            return Ras()

        servers.leader.backend.connect = connect  # type: ignore[attr-defined]
        # Since Python 3.12, an attribute that only `__getattr__` knows does not count.
        servers.leader.backend.shell = connect  # type: ignore[attr-defined]
        for name in ("shares", "apart"):
            await servers.submit(name, extras={"hangDetection": {"minutes": 1}})
            await servers.in_phase(name, "running")
            row, hanging = await servers.row(name), Hanging(servers)
            hanging.sent = 0 if name == "apart" else None
            await hanging.look(row.id, 0, times=14, stopped=0)
            (message,) = await hangs_of(servers, row.id)
            assert ("NCCL reports: 6 ranks are behind" in message) == (name == "apart")
        assert asked == [28028]

    live(story)


async def _attempt(servers: Servers, number: int) -> bool:
    return (await servers.row("train")).attempt == number
