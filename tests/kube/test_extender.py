"""HiveD as the extender of a real kube-scheduler: the same pods, annotations and decisions as with HiveD itself."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from openpai.kube.client import KubeClient
from tests.kube.hived_world import HivedWorld
from tests.kube.server import why_not
from tests.ports import free_port

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(bool(why_not("kube-scheduler")), reason=why_not("kube-scheduler")),
]


@pytest.fixture
async def world(kube_api: Path, kube: KubeClient, kube_namespace: str, tmp_path: Path) -> AsyncIterator[HivedWorld]:
    async with HivedWorld(kube_api, kube, kube_namespace, tmp_path) as made:
        yield made


async def test_gangs_get_their_cells_and_what_does_not_fit_says_why(world: HivedWorld) -> None:
    await world.start()
    places = await world.placed(*await world.gang("train", 2))
    assert {place.split(":")[1] for place in places} == {"0,1,2,3"}
    assert len({place.split(":")[0] for place in places}) == 2
    small = await world.placed(await world.create("small", "b", 1), await world.create("pair", "b", 2))
    assert small[0].split(":")[0] == small[1].split(":")[0]
    assert small[1].split(":")[1] in ("0,1", "2,3")
    await world.create("more", leaves=2)
    await world.waits("more", "virtual cluster a uses 8 of its 8")
    await world.create("wrong", "none")
    await world.waits("wrong", "there is no virtual cluster 'none'")
    groups = await world.inspect("affinitygroups/")
    assert {group["status"]["state"] for group in groups["items"]} == {"Allocated"}
    await world.delete("train-0", "train-1")
    await world.placed("more")


async def test_a_gang_of_higher_priority_takes_the_cells_of_a_lower_one(world: HivedWorld) -> None:
    await world.start(first=2, rest=1)
    await world.placed(*await world.gang("low", 2))
    idle = [await world.create(f"idle-{number}", "a", priority=-1) for number in range(1)]
    await world.placed(*idle)
    high = await world.gang("high", 2, level="high", priority=100)
    await world.placed(*high)
    assert {pod.name for pod in world.nodes.pods} & {"low-0", "low-1"} == set()
    await world.placed("idle-0")
    await world.placed(await world.create("owner", "b", level="high"))
    assert "idle-0" not in {pod.name for pod in world.nodes.pods}


async def test_a_restart_finds_every_pod_where_it_was(world: HivedWorld) -> None:
    await world.start()
    members = {"name": "half", "members": [{"podNumber": 2, "leafCellNumber": 2}]}
    await world.placed(*await world.gang("train", 2), await world.create("half-0", "b", 2, affinityGroup=members))
    before = await world.inspect("affinitygroups/")
    cells = await world.inspect("clusterstatus")
    world.kill_extender()
    await world.create("half-1", "b", 2, affinityGroup=members)
    await world.create("more", leaves=2)
    await world.start_extender()
    await world.placed("half-1")
    await world.waits("more", "virtual cluster a uses 8 of its 8")
    groups = {group["metadata"]["name"]: group for group in (await world.inspect("affinitygroups/"))["items"]}
    # Pods of other tests may run on the same API server.
    ours = [group for group in before["items"] if group["metadata"]["name"] in (f"{world.nodes.id}/train", "half")]
    assert len(ours) == 2
    for group in ours:
        again = groups[group["metadata"]["name"]]
        assert again["status"]["physicalPlacement"] == group["status"]["physicalPlacement"]
    after = await world.inspect("clusterstatus")
    assert after["physicalCluster"] == cells["physicalCluster"]


async def test_a_bad_node_is_avoided_until_it_is_well_and_a_new_configuration_counts(world: HivedWorld) -> None:
    await world.start(first=1, rest=1)
    await world.nodes.set_ready(world.names[0], False)
    (place,) = await world.placed(await world.create("one"))
    assert place.startswith(world.names[1])
    await world.create("two", "b")
    await world.waits("two", "bad or drained")
    await world.nodes.set_ready(world.names[0])
    assert (await world.placed("two"))[0].startswith(world.names[0])
    await world.delete("two")
    await world.create("three")
    await world.waits("three", "uses 4 of its 4")
    world.configure(first=2, rest=0)
    await world.inspected("clusterstatus/virtualclusters/a", lambda cells: len(cells) == 2)
    assert (await world.placed("three"))[0].startswith(world.names[0])


async def test_preemption_works_also_on_nodes_that_are_not_full_for_kubernetes(world: HivedWorld) -> None:
    await world.start(first=2, rest=0, cpu="64")
    await world.placed(*await world.gang("low", 2))
    await world.placed(*await world.gang("high", 2, level="high", priority=100))
    assert {pod.name for pod in world.nodes.pods} == {"high-0", "high-1"}


async def test_of_two_extenders_one_answers_and_the_other_takes_over(world: HivedWorld) -> None:
    lease = ("--lease", f"{world.namespace}/extender")
    await world.start(2, 0, "4", *lease)
    await world.healthy(200)
    await world.placed(*await world.gang("train", 2))
    before = await world.inspect("affinitygroups/")
    first, first_port = world.extender, world.port
    world.port = free_port()
    await world.start_extender(*lease)
    await world.healthy(503)
    # It stands by from its start, and knows the holder once it has read the lease.
    refusal = "does not answer questions now, the holder of the lease is "
    await world.inspected("clusterstatus", lambda answer: refusal in answer)

    first.send_signal(signal.SIGSTOP)
    await world.healthy(200)
    ours = [each for each in before["items"] if each["metadata"]["name"] == f"{world.nodes.id}/train"]
    assert ours
    after = (await world.inspect("affinitygroups/"))["items"]
    assert [each for each in after if each["metadata"]["name"] == f"{world.nodes.id}/train"] == ours
    # The one that wakes up stands by, and takes over at once from one that stops in good order.
    first.send_signal(signal.SIGCONT)
    world.port, second_port = first_port, world.port
    await world.healthy(503)
    world.port = second_port
    await world.healthy(200)
    world.extender.terminate()
    world.extender.wait(30)
    world.port = first_port
    await world.healthy(200)
