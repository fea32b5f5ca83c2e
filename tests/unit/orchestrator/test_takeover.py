"""What a server that takes over knows of guarantees: every gang is served from the promise that served it before."""

from __future__ import annotations

import asyncio

import pytest

from openpai.orchestrator.gangs import job_of
from openpai.ports.cluster_settings import ORDERS, PLACEMENT_HINTS
from openpai.ports.platform import Submitter
from openpai.protocol.errors import Refused
from openpai.store.accounting import DAY_MS
from tests.unit.orchestrator.servers import Servers, job, live

TAKES_OVER_WITHIN_S = 10

CLUSTER = """
physicalCluster:
  skuTypes: {K80: {gpu: 1, cpu: 4, memory: 100Gi}}
  cellTypes:
    K80-HALF: {childCellType: K80, childCellNumber: 2}
    K80-NODE: {childCellType: K80-HALF, childCellNumber: 2, isNodeLevel: true}
  physicalCells:
  - {cellType: K80-NODE, cellAddress: node-01}
  - {cellType: K80-NODE, cellAddress: node-02}
  - {cellType: K80-NODE, cellAddress: node-03}
  - {cellType: K80-NODE, cellAddress: node-04}
virtualClusters:
  default:
    virtualCells: [{cellType: K80-NODE, cellNumber: 1}, {cellType: K80-NODE.K80-HALF, cellNumber: 1}]
"""


HALVES = {
    "hivedScheduler": {
        "taskRoles": {
            "trainer": {"affinityGroupName": "training", "cellType": "K80-HALF"},
            "server": {"affinityGroupName": "training"},
            "watcher": {},
        },
        "affinityGroups": {"training": {"cellType": "K80-NODE"}},
    }
}


def test_tasks_and_groups_of_tasks_stay_inside_the_cells_they_ask_for() -> None:
    async def story(servers: Servers) -> None:
        text = CLUSTER.replace("cellType: K80-NODE, cellNumber: 1", "cellType: K80-NODE, cellNumber: 3")
        await servers.commands.configure(promises=None, hived=text, version=0, by="root")
        await servers.submit("first", gpus=1)
        await servers.in_phase("first", "running")
        roles = {"trainer": {"instances": 1}, "server": {"instances": 2}, "watcher": {"instances": 1}}
        gpus = {"cpu": 1, "memoryMB": 64, "gpu": 2}
        roles["trainer"]["resourcePerInstance"] = gpus  # type: ignore[assignment]
        await servers.submit("job", roles=roles, extras=HALVES)
        await servers.in_phase("job", "running")
        record = next(each for each in servers.leader.active.records.values() if each.name == "job")
        slots = {(id_.role, id_.index): slot for id_, slot in record.slots.items()}
        assert slots["trainer", 0].devices in ((0, 1), (2, 3))
        assert len({slots[key].node for key in slots if key[0] != "watcher"}) == 1
        nowhere = {"hivedScheduler": {"taskRoles": {"worker": {"cellType": "NOWHERE"}}}}
        with pytest.raises(Refused, match="no cell type 'NOWHERE'"):
            await servers.submit("nowhere", extras=nowhere)

    live(story)


def shares(servers: Servers) -> tuple[int, int]:
    (view,) = servers.leader.scheduler.virtual_clusters()
    return view.used.gpus, view.borrowed.gpus


def rights(servers: Servers) -> dict[str, str | None]:
    """Return of every gang that runs who took its guarantee; None where it has it."""
    gangs = servers.leader.scheduler.core.cluster.gangs  # type: ignore[attr-defined]
    names = {row.job.id: row.name for row in servers.leader.active.records.values()}
    return {names[job_of(name)]: None if each.lazily_preempted_by is None else "lost" for name, each in gangs.items()}


TWO_TEAMS = CLUSTER.replace(
    "virtualClusters:",
    """virtualClusters:
  vision:
    virtualCells: [{cellType: K80-NODE, cellNumber: 1}]
    order: fifo
    interruptible: true""",
)


async def lent_after_ten_minutes(servers: Servers) -> dict[str, tuple[int, int]]:
    """Return the GPU time that each user borrowed and, without a user, that is lent, in tens of minutes."""
    await asyncio.sleep(600)
    now_ms = servers.clock.now_ms()
    found = await servers.usage.use(now_ms - DAY_MS, now_ms)
    hours: dict[str, tuple[float, float]] = {}
    for row in found:
        borrowed, lent = hours.get(row.user, (0.0, 0.0))
        hours[row.user] = borrowed + row.gpu_hours_borrowed, lent + row.gpu_hours_lent
    return {user: (borrowed * 6, lent * 6) for user, (borrowed, lent) in hours.items()}


def test_how_good_estimates_and_guesses_are_is_known_after_a_restart() -> None:
    async def story(servers: Servers) -> None:
        whole = {"gpus": 4, "instances": 4, "extras": {"timeLimitMinutes": 60}}
        await servers.submit("first", **whole)
        await servers.in_phase("first", "running")
        await servers.submit("second", **whole)
        (wait,) = await servers.why("second")
        assert wait.estimate is not None
        assert wait.estimate.latest_ms is not None
        await servers.commands.stop("ann", "first", "ann")
        await servers.in_phase("second", "running")
        (view,) = await servers.commands.virtual_clusters()
        assert view.accuracy.starts == 1
        await asyncio.sleep(60)
        await servers.restart()
        assert (await servers.commands.virtual_clusters())[0].accuracy == view.accuracy

    live(story)


@pytest.mark.slow
def test_all_jobs_of_a_virtual_cluster_may_be_interrupted_unless_they_say_otherwise() -> None:
    def views(servers: Servers) -> dict[str, tuple[int, int, int]]:
        found = servers.leader.scheduler.virtual_clusters()
        return {view.name: (view.used.gpus, view.borrowed.gpus, view.lent.gpus) for view in found}

    async def story(servers: Servers) -> None:
        await servers.commands.configure(promises=None, hived=TWO_TEAMS, version=0, by="root")
        assert [(view.order, view.is_interruptible) for view in await servers.commands.virtual_clusters()] == [
            ("fair", False),
            ("fifo", True),
        ]
        strict = {"hivedScheduler": {"interruptible": False}}
        for name, extras in (("own", {}), ("strict", strict), ("one", {}), ("two", {}), ("three", {})):
            await servers.submit(name, gpus=4, vc="vision", extras=extras)
        await servers.in_phase("three", "running")
        assert (await servers.row("strict")).phase == "queued"
        assert views(servers) == {"default": (0, 0, 6), "vision": (4, 12, 0)}
        # It is counted now and then, and a server that ends has not counted its last seconds.
        assert await lent_after_ten_minutes(servers) == {
            "": (0, pytest.approx(6, rel=0.05)),
            "ann": (pytest.approx(12, rel=0.05), 0),
        }
        await servers.restart()
        assert await lent_after_ten_minutes(servers) == {
            "": (0, pytest.approx(12, rel=0.05)),
            "ann": (pytest.approx(24, rel=0.05), 0),
        }
        assert views(servers) == {"default": (0, 0, 6), "vision": (4, 12, 0)}
        await servers.settings.set_setting(
            ORDERS, {"orders": {}, "interruptible": {"vision": False}}, by="root", at_ms=0, version=None
        )
        await servers.commands.limits_changed()
        await servers.commands.stop("ann", "three", "ann")
        await servers.in_phase("three", "stopped")
        await servers.submit("four", gpus=4, vc="vision")
        await servers.submit("other", gpus=4)
        await servers.in_phase("other", "running")
        assert (await servers.row("four")).phase == "queued"

    live(story)


def test_a_restart_keeps_what_every_job_was_served_from() -> None:
    async def story(servers: Servers) -> None:
        await servers.commands.configure(promises=None, hived=CLUSTER, version=0, by="root")
        for name, gpus in (("small", 1), ("whole", 4)):
            await servers.submit(name, gpus=gpus)
            await servers.in_phase(name, "running")
        assert shares(servers) == (5, 0)
        await servers.restart()
        assert shares(servers) == (5, 0)

    live(story)


def test_a_restart_gives_no_job_the_guarantee_of_another() -> None:
    lazy = {"hivedScheduler": {"lazyPreemptionEnable": True, "jobPriorityClass": "test"}}
    urgent = {"hivedScheduler": {"jobPriorityClass": "prod"}}

    async def story(servers: Servers) -> None:
        await servers.commands.configure(promises=None, hived=CLUSTER, version=0, by="root")
        await servers.submit("lazy", gpus=4, extras=lazy)
        await servers.in_phase("lazy", "running")
        await servers.submit("urgent", gpus=4, extras=urgent)
        await servers.in_phase("urgent", "running")
        assert (rights(servers), shares(servers)) == ({"lazy": "lost", "urgent": None}, (4, 4))
        kept = await servers.settings.setting(PLACEMENT_HINTS)
        assert kept is not None
        assert len(kept.body["gangs"]) == 1
        await servers.restart()
        assert (rights(servers), shares(servers)) == ({"lazy": "lost", "urgent": None}, (4, 4))
        await servers.commands.stop("ann", "urgent", "ann")
        await servers.in_phase("urgent", "stopped")
        assert (rights(servers), shares(servers)) == ({"lazy": None}, (4, 0))
        await servers.restart()
        assert (rights(servers), shares(servers)) == ({"lazy": None}, (4, 0))
        kept = await servers.settings.setting(PLACEMENT_HINTS)
        assert kept is not None
        assert kept.body["gangs"] == {}

    live(story)


def test_a_killed_leader_is_replaced_and_a_new_job_runs_within_ten_seconds() -> None:
    async def story(servers: Servers) -> None:
        other = await servers.start("b")
        await servers.submit("before", gpus=1)
        await servers.in_phase("before", "running")
        held = servers.where((await servers.row("before")).id)
        died_s = servers.loop.time()
        await servers.servers.pop("a").die()
        await other.commands.submit(Submitter("ann"), job("after"))
        await servers.in_phase("after", "running")
        assert servers.loop.time() - died_s < TAKES_OVER_WITHIN_S
        assert servers.where((await servers.row("before")).id) == held

    live(story)
