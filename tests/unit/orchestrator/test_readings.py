"""What the leader measures of its jobs."""

from __future__ import annotations

from openpai.lifecycle.model import AttemptKey
from openpai.orchestrator.measuring import TaskMeasures
from openpai.orchestrator.readings import OfJobs, of_platform
from openpai.ports.task_usage import Counters, DeviceUse, TaskSample
from openpai.series.labels import Labels
from tests.unit.orchestrator.servers import Servers, live


def test_a_job_may_end_while_jobs_are_measured() -> None:
    async def story(servers: Servers) -> None:
        for name in ("first", "second"):
            await servers.submit(name)
            await servers.in_phase(name, "running")
        leader = servers.leader
        readings = OfJobs(lambda: leader)()
        assert next(readings).labels.get("job_name") == "ann~first"
        leader.active.records.popitem()
        assert [reading.labels.get("job_name") for reading in readings] == ["ann~second"]

    live(story)


def test_tasks_are_counted_by_state() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("runs", instances=3)
        await servers.submit("waits", gpus=4, instances=4)
        await servers.in_phase("runs", "running")
        leader = servers.leader
        counted = {reading.labels.get("state"): reading.values for reading in of_platform(lambda: leader)}
        assert {state: values["pai_tasks"] for state, values in counted.items() if "pai_tasks" in values} == {
            "running": 3.0,
            "waiting": 4.0,
        }

    live(story)


def test_the_labels_of_tasks_are_made_once_and_forgotten_with_them() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("train", gpus=2)
        await servers.in_phase("train", "running")
        leader, measures = servers.leader, TaskMeasures()
        leader.measures = measures
        key = AttemptKey((await servers.row("train")).id, 0, "worker", 0, 0)
        measures.learn([TaskSample(key, 1, Counters(), devices=(DeviceUse(0), DeviceUse(1)))])
        source = OfJobs(lambda: leader)

        def of_tasks() -> list[Labels]:
            return [reading.labels for reading in source() if reading.labels.get("task_index")]

        first, second = of_tasks(), of_tasks()
        assert [one.get("minor_number") for one in first] == ["", "0", "1"]
        assert all(one is other for one, other in zip(first, second, strict=True))
        measures.forget()
        assert of_tasks() == []
        assert of_tasks() == []
        measures.learn([TaskSample(key, 2, Counters())])
        (again,) = of_tasks()
        assert again == first[0]
        assert again is not first[0]

    live(story)
