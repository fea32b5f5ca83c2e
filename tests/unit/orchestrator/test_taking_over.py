"""What a server that takes over knows of guarantees: every gang is served from the promise that served it before."""

from __future__ import annotations

import pytest

from openpai.orchestrator.gangs import job_of
from openpai.ports.settings import PLACEMENT_HINTS
from openpai.protocol.errors import Refused
from tests.unit.orchestrator.house import House, live

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


def test_tasks_and_groups_of_tasks_stay_inside_the_cells_they_wish_for() -> None:
    async def story(house: House) -> None:
        text = CLUSTER.replace("cellType: K80-NODE, cellNumber: 1", "cellType: K80-NODE, cellNumber: 3")
        await house.wishes.configure(wishes=None, hived=text, version=0, by="root")
        await house.submit("first", gpus=1)
        await house.in_phase("first", "running")
        roles = {"trainer": {"instances": 1}, "server": {"instances": 2}, "watcher": {"instances": 1}}
        gpus = {"cpu": 1, "memoryMB": 64, "gpu": 2}
        roles["trainer"]["resourcePerInstance"] = gpus  # type: ignore[assignment]
        await house.submit("job", roles=roles, extras=HALVES)
        await house.in_phase("job", "running")
        record = next(each for each in house.office.desk.records.values() if each.name == "job")
        slots = {(id_.role, id_.index): slot for id_, slot in record.slots.items()}
        assert slots["trainer", 0].devices in ((0, 1), (2, 3))
        assert len({slots[key].node for key in slots if key[0] != "watcher"}) == 1
        nowhere = {"hivedScheduler": {"taskRoles": {"worker": {"cellType": "NOWHERE"}}}}
        with pytest.raises(Refused, match="no cell type 'NOWHERE'"):
            await house.submit("nowhere", extras=nowhere)

    live(story)


def shares(house: House) -> tuple[int, int]:
    (view,) = house.office.scheduler.virtual_clusters()
    return view.used.gpus, view.borrowed.gpus


def rights(house: House) -> dict[str, str | None]:
    """Return of every gang that runs who took its guarantee; None where it has it."""
    gangs = house.office.scheduler.core.cluster.gangs  # type: ignore[attr-defined]
    names = {row.job.id: row.name for row in house.office.desk.records.values()}
    return {names[job_of(name)]: None if each.lazily_preempted_by is None else "lost" for name, each in gangs.items()}


def test_a_restart_keeps_what_every_job_was_served_from() -> None:
    async def story(house: House) -> None:
        await house.wishes.configure(wishes=None, hived=CLUSTER, version=0, by="root")
        for name, gpus in (("small", 1), ("whole", 4)):
            await house.submit(name, gpus=gpus)
            await house.in_phase(name, "running")
        assert shares(house) == (5, 0)
        await house.restart()
        assert shares(house) == (5, 0)

    live(story)


def test_a_restart_gives_nobody_a_guarantee_that_another_has() -> None:
    lazy = {"hivedScheduler": {"lazyPreemptionEnable": True, "jobPriorityClass": "test"}}
    urgent = {"hivedScheduler": {"jobPriorityClass": "prod"}}

    async def story(house: House) -> None:
        await house.wishes.configure(wishes=None, hived=CLUSTER, version=0, by="root")
        await house.submit("lazy", gpus=4, extras=lazy)
        await house.in_phase("lazy", "running")
        await house.submit("urgent", gpus=4, extras=urgent)
        await house.in_phase("urgent", "running")
        assert (rights(house), shares(house)) == ({"lazy": "lost", "urgent": None}, (4, 4))
        kept = await house.settings.setting(PLACEMENT_HINTS)
        assert kept is not None
        assert len(kept.body["gangs"]) == 1
        await house.restart()
        assert (rights(house), shares(house)) == ({"lazy": "lost", "urgent": None}, (4, 4))
        await house.wishes.stop("ann", "urgent", "ann")
        await house.in_phase("urgent", "stopped")
        assert (rights(house), shares(house)) == ({"lazy": None}, (4, 0))
        await house.restart()
        assert (rights(house), shares(house)) == ({"lazy": None}, (4, 0))
        kept = await house.settings.setting(PLACEMENT_HINTS)
        assert kept is not None
        assert kept.body["gangs"] == {}

    live(story)
