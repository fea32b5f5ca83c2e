"""Jobs of thousands of tasks: what they cost grows as they do, passes stay bounded, and nothing of them is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest

from openpai.backends.simulated.backend import virtual_nodes
from openpai.lifecycle.actions import Wanted, wanted
from openpai.lifecycle.facts import StopRequested, TasksGranted
from openpai.lifecycle.model import AttemptKey, ExitReport, Plan, RolePlan, Task, TaskId, TaskPhase
from openpai.lifecycle.stepping import new_job, step
from openpai.orchestrator.acting import TASKS_OF_ONE_JOB, TASKS_PER_PASS
from openpai.orchestrator.launching import launches
from openpai.orchestrator.node_sync import sync_nodes
from openpai.orchestrator.observing import hear, understand
from openpai.orchestrator.readings import of_nodes
from openpai.orchestrator.reconciling import LOOKED_AT_ONCE, audit
from openpai.orchestrator.recording import TASKS_AT_ONCE
from openpai.orchestrator.waits import WAITS_OF_A_ROLE
from openpai.ports.backend import Action, ForgetTask, KillTask, LaunchTask
from openpai.ports.store import JobRecord
from openpai.protocol.errors import Unavailable
from tests.costs import counted_turns, lines_run
from tests.unit.orchestrator.servers import Servers, live

PER_NODE = 10
LOOSE = {"gangAllocation": False}


class Outcome:
    """All actions for a backend, call by call."""

    def __init__(self, servers: Servers) -> None:
        self.calls: list[Sequence[Action]] = []
        backend = servers.leader.backend
        self._apply = backend.apply
        backend.apply = self.apply  # type: ignore[method-assign]

    async def apply(self, actions: Sequence[Action]) -> None:
        self.calls.append(tuple(actions))
        await self._apply(actions)

    def of(self, kind: type[Action]) -> list[Action]:
        return [action for call in self.calls for action in call if isinstance(action, kind)]


@pytest.mark.slow
def test_a_gang_of_two_thousand_starts_and_ends_in_bounded_passes_with_one_shared_environment() -> None:
    async def story(servers: Servers) -> None:
        message = Outcome(servers)
        await servers.submit("large", instances=2_000, command="sleep 47")
        await servers.in_phase("large", "succeeded", within_s=120)
        await servers.until(servers.is_quiet, within_s=10)
        launches = [action for action in message.of(LaunchTask) if isinstance(action, LaunchTask)]
        assert Counter(launch.key.index for launch in launches) == Counter(range(2_000))
        assert len({id(launch.shared_env) for launch in launches}) == 1
        assert len({id(launch.hosts) for launch in launches}) == 1
        assert len(launches[0].hosts.splitlines()) == 2_000
        assert max(len(launch.env) for launch in launches) < 50
        for call in message.calls:
            kinds = Counter(type(action) for action in call)
            assert kinds[LaunchTask] <= TASKS_OF_ONE_JOB
            assert kinds[ForgetTask] <= TASKS_PER_PASS
        assert len(message.of(ForgetTask)) == 2_000
        reasons = Counter(row.event.reason for row in await servers.events("large"))
        assert reasons["TaskSucceeded"] == 2_000
        assert reasons["Succeeded"] == 1
        assert not servers.leader.active.launchers
        assert not servers.leader.active.launched
        assert servers.leader.scheduler.virtual_clusters()[0].used.gpus == 0

    live(story, virtual_nodes(200, PER_NODE))


@pytest.mark.slow
def test_a_small_job_does_not_wait_until_a_large_one_before_it_is_launched() -> None:
    async def story(servers: Servers) -> None:
        message = Outcome(servers)
        await servers.submit("large", instances=1_500)
        await servers.submit("small")
        await servers.in_phase("small", "running", within_s=10)
        small = (await servers.row("small")).id
        kinds = [{action.key.job for action in call if isinstance(action, LaunchTask)} for call in message.calls]
        launching = [jobs for jobs in kinds if jobs]
        assert next(at for at, jobs in enumerate(launching) if small in jobs) <= 1 < len(launching) - 1

    live(story, virtual_nodes(200, PER_NODE))


@pytest.mark.slow
def test_a_server_that_dies_while_it_launches_a_gang_leaves_nothing_out_and_nothing_twice() -> None:
    async def story(servers: Servers) -> None:
        message = Outcome(servers)
        submitted = await servers.submit("large", instances=600, command="sleep 60")
        started: list[AttemptKey] = []

        async def is_half_launched() -> bool:
            started[:] = [action.key for action in message.of(LaunchTask)]
            return bool(started)

        apply = message._apply

        async def refuse(actions: Sequence[Action]) -> None:
            # The second round never arrives: the server dies in it.
            if len(message.of(LaunchTask)) > TASKS_OF_ONE_JOB:
                raise Unavailable("the server dies here")
            await apply(actions)

        message._apply = refuse
        await servers.until(is_half_launched, within_s=10)
        running = len(servers.where(submitted.job))
        assert 0 < running < 600
        await servers.restart()
        again = Outcome(servers)
        await servers.in_phase("large", "running", within_s=30)

        async def is_launched() -> bool:
            return len(servers.where(submitted.job)) == 600

        await servers.until(is_launched, within_s=30)
        await servers.in_phase("large", "succeeded", within_s=120)
        assert (await servers.row("large")).attempt == 0
        assert all(key.task_attempt == 0 for key in {action.key for action in again.of(LaunchTask)})

    live(story, virtual_nodes(100, PER_NODE))


@pytest.mark.slow
def test_a_large_job_that_is_stopped_ends_every_task_once_and_holds_nothing() -> None:
    async def story(servers: Servers) -> None:
        submitted = await servers.submit("large", instances=1_000)

        async def is_launched() -> bool:
            return len(servers.where(submitted.job)) == 1_000

        await servers.until(is_launched, within_s=30)
        message = Outcome(servers)
        await servers.commands.stop("ann", "large", "ann")
        await servers.in_phase("large", "stopped", within_s=60)
        assert Counter(action.key.index for action in message.of(KillTask)) == Counter(range(1_000))
        assert all(sum(isinstance(action, KillTask) for action in call) <= TASKS_OF_ONE_JOB for call in message.calls)
        assert not servers.cluster.running()
        assert not servers.leader.active.killed

    live(story, virtual_nodes(100, PER_NODE))


@pytest.mark.slow
def test_a_large_gang_is_tried_again_in_place_if_every_task_fails() -> None:
    async def story(servers: Servers) -> None:
        role = {"taskRetryCount": 1, "completion": {"minFailedInstances": 600}}
        await servers.submit("large", instances=600, command="exit 7", roles={"worker": role})
        await servers.in_phase("large", "failed", within_s=120)
        reasons = Counter(row.event.reason for row in await servers.events("large"))
        assert reasons["TaskRetried"] == reasons["TaskFailed"] == 600

    live(story, virtual_nodes(60, PER_NODE))


def test_the_reasons_of_thousands_of_waiting_tasks_are_a_few_and_the_number_of_others() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("loose", gpus=0, instances=500, extras=LOOSE)
        await servers.in_phase("loose", "running", within_s=10)
        waiting = servers.leader.active.records[(await servers.row("loose")).id].job
        count = sum(task.phase is TaskPhase.WAITING for task in waiting.tasks.values())
        waits = [wait for wait in await servers.why("loose") if wait.gang.endswith("/0")]
        assert len(waits) == WAITS_OF_A_ROLE
        assert [wait.more for wait in waits] == [0] * (WAITS_OF_A_ROLE - 1) + [count - WAITS_OF_A_ROLE]

    live(story, virtual_nodes(1, 0, cpus=8))


@pytest.mark.parametrize("shape", ["gang", "loose"])
@pytest.mark.slow
def test_the_life_of_a_job_costs_as_much_as_it_has_tasks(shape: str) -> None:
    def cost(tasks: int) -> int:
        async def gang(servers: Servers) -> None:
            await servers.submit("large", instances=tasks, command="sleep 1")
            await servers.in_phase("large", "succeeded", within_s=120)

        async def loose(servers: Servers) -> None:
            await servers.submit("large", gpus=0, instances=tasks, command="sleep 0", extras=LOOSE)
            await servers.in_phase("large", "succeeded", within_s=3600)

        nodes = virtual_nodes(20, PER_NODE) if shape == "gang" else virtual_nodes(1, 0, cpus=4)
        return lines_run(lambda: live(gang if shape == "gang" else loose, nodes))

    cost(1)  # the rules of the failure analysis, and more that is read once
    small, middle, large = cost(40), cost(80), cost(160)
    # Starting and ending a server costs something, too: what each further task costs is compared.
    assert large - middle <= 2 * (middle - small) * 1.25, (small, middle, large)


def test_what_is_wanted_of_some_tasks_is_what_is_wanted_of_all_of_them() -> None:
    job = new_job("j", Plan((RolePlan("worker", 30, 1, -1, 0),), 0, is_gang=True), 0)
    granted = step(job, (TasksGranted(0, {id_: number for number, id_ in enumerate(job.tasks)}, 1),)).job
    stopped = step(granted, (StopRequested(2, "ann"),)).job
    ids = list(job.tasks)
    for each, count in ((job, 0), (granted, 30), (stopped, 30)):
        parts = [wanted(each, ids[at : at + 7]) for at in range(0, 30, 7)]
        whole = wanted(each)
        assert len(whole.launch) + len(whole.kill) == count
        assert tuple(task for part in parts for task in part.launch) == whole.launch
        assert tuple(key for part in parts for key in part.kill) == whole.kill
        assert wanted(each, [TaskId("nobody", 0)]) == Wanted()


@pytest.mark.slow
def test_others_have_their_turn_again_and_again_while_a_large_gang_is_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(servers: Servers) -> None:
        turns = 0
        seen: Counter[int] = Counter()
        is_taken = asyncio.Event()
        take = servers.leader.ports.take

        def noted(address: str, labels: Mapping[str, int]) -> dict[str, tuple[int, ...]] | None:
            seen[turns] += 1
            if seen.total() == 3 * TASKS_AT_ONCE:
                is_taken.set()
            return take(address, labels)

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        monkeypatch.setattr(servers.leader.ports, "take", noted)
        await servers.submit("large", instances=3 * TASKS_AT_ONCE)
        other = asyncio.create_task(others())
        await is_taken.wait()
        other.cancel()
        assert max(seen.values()) <= TASKS_AT_ONCE

    live(story, virtual_nodes(300, PER_NODE))


@pytest.mark.slow
def test_an_audit_of_thousands_of_tasks_lets_others_have_their_turn() -> None:
    async def story(servers: Servers) -> None:
        for number in range(6):
            await servers.submit(f"job-{number}", instances=200)
        for number in range(6):
            await servers.in_phase(f"job-{number}", "running")
        backend = servers.leader.backend
        with counted_turns() as alone:
            # In a task of its own: a server counts what each of its loops does at once.
            assert len(await asyncio.create_task(backend.observe())) == 1_200
        with counted_turns() as lines:
            await asyncio.create_task(audit(servers.leader))
        assert lines.most_at_once < alone.most_at_once + 15 * LOOKED_AT_ONCE

    live(story, virtual_nodes(120, PER_NODE))


def _launch(servers: Servers, record: JobRecord, task: Task) -> None:
    (_,) = launches(servers.leader, record, [task], {})


def test_what_ends_and_starts_of_a_large_job_costs_no_look_at_all_its_tasks() -> None:
    async def story(servers: Servers) -> None:
        costs = []
        for name, instances in (("small", 40), ("large", 400)):
            await servers.submit(name, gpus=0, instances=instances, command="sleep 30", extras=LOOSE)
            await asyncio.sleep(10)
            record = servers.leader.active.records[(await servers.row(name)).id]
            key = next(record.job.key(task) for task in record.job.tasks.values() if task.phase is TaskPhase.RUNNING)
            (seen,) = await servers.leader.backend.observe([key])
            over = replace(seen, exit=ExitReport(0))
            task = record.job.tasks[key.task]
            with counted_turns() as ended:
                await asyncio.create_task(asyncio.wait_for(understand(servers.leader, [over]), 10))
            servers.leader.active.launchers.clear()
            started = lines_run(partial(_launch, servers, record, task))
            costs.append((ended.count, started))
            await servers.commands.stop("ann", name, "ann")
            await servers.in_phase(name, "stopped")
        assert all(large < 2 * small for small, large in zip(*costs, strict=True))

    live(story, virtual_nodes(1, 0, cpus=8))


def test_jobs_that_end_while_an_audit_waits_for_its_turn_are_not_read_again() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("short", command="sleep 1000")
        await servers.in_phase("short", "running")
        leader, job, loaded = servers.leader, (await servers.row("short")).id, list[str]()
        (seen,) = await leader.backend.observe()
        load = leader.store.load

        async def loading(id_: str) -> JobRecord | None:
            loaded.append(id_)
            return await load(id_)

        leader.store.load = loading  # type: ignore[method-assign]
        async with leader.gate:
            hearing = asyncio.create_task(hear(leader, [replace(seen, exit=ExitReport(0))]))
            await asyncio.sleep(0.1)
            record = leader.active.records.pop(job)
        await hearing
        leader.active.records[job] = record
        assert loaded == []

    live(story)


def test_metrics_of_many_nodes_are_worked_out_node_by_node() -> None:
    async def story(servers: Servers) -> None:
        readings = of_nodes(lambda: servers.leader)
        first = lines_run(lambda: next(readings))
        rest = lines_run(lambda: list(readings))
        # Between two readings others may have their turn.
        assert first < rest / 4

    live(story, virtual_nodes(200, 0, cpus=1))


def test_metrics_of_nodes_pause_after_some_jobs() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("first", command="sleep 600")
        await servers.in_phase("first", "running", within_s=10)
        active = servers.leader.active
        known, (record,) = active.records, active.records.values()
        active.records = {f"{number}": record for number in range(1_000)}
        readings = of_nodes(lambda: servers.leader)
        first = lines_run(lambda: next(readings))
        whole = first + lines_run(lambda: list(readings))
        active.records = known
        assert first < whole / 4

    live(story)


def test_nodes_that_did_not_change_cost_next_to_nothing() -> None:
    async def story(servers: Servers) -> None:
        with counted_turns() as lines:
            await asyncio.create_task(sync_nodes(servers.leader))
        assert lines.count < 25 * 200

    live(story, virtual_nodes(200, 0, cpus=1))
