"""What the leader measures of its jobs."""

from __future__ import annotations

from openpai.orchestrator.readings import of_jobs, of_platform
from tests.unit.orchestrator.servers import Servers, live


def test_a_job_may_end_while_jobs_are_measured() -> None:
    async def story(servers: Servers) -> None:
        for name in ("first", "second"):
            await servers.submit(name)
            await servers.in_phase(name, "running")
        leader = servers.leader
        readings = of_jobs(lambda: leader)
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
