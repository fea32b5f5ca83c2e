"""A namespace whose quota is full: tasks wait for room, of whatever kind, and hold no others up."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from openpai.backends.kubernetes.nodes import DeviceRules
from openpai.backends.kubernetes.writes import CREATING
from openpai.kube.objects import RESOURCE_SLICES, kind
from openpai.lifecycle.model import ExitReason
from openpai.ports.backend import KillTask
from tests.contracts.seen import Watch, a_key, a_launch
from tests.kube.test_backend_faults import World, step, the_end, until, world

__all__ = ["world"]
QUOTAS = kind("v1", "ResourceQuota", "resourcequotas")


async def test_a_full_quota_is_waited_for_and_a_kill_ends_the_wait(world: World) -> None:
    backend = await world.start()
    room = {"hard": {"pods": "1"}}
    await world.kube.create(QUOTAS, {"metadata": {"name": "small"}, "spec": room}, world.namespace)
    # The controller, which is not here, counts.
    await set_used(world, 1)
    await backend.apply([a_launch(world, a_key(n), world.programs.exits(3)) for n in (0, 1)])
    assert "exceeded quota" in await step(backend, "QuotaExceeded")
    await backend.apply([KillTask(a_key(1), 30.0)])
    killed = await the_end(Watch(backend), 1)
    assert (killed.code, killed.reason) == (143, ExitReason.EXITED)
    await set_used(world, 0)
    assert (await the_end(Watch(backend))).code == 3


async def set_used(world: World, count: int, what: str = "pods") -> None:
    status = {"hard": {what: "1"}, "used": {what: str(count)}}
    await world.kube.patch(QUOTAS, "small", {"status": status}, world.namespace, subresource="status")


async def test_a_full_quota_of_anything_is_waited_for_and_holds_no_other_task_up(world: World) -> None:
    """Nor do more tasks than are created at the same time, all of which wait."""
    backend = await world.start()
    await world.kube.create(
        QUOTAS, {"metadata": {"name": "small"}, "spec": {"hard": {"secrets": "1"}}}, world.namespace
    )
    await set_used(world, 0, "secrets")
    await backend.apply([a_launch(world, a_key(0), world.programs.exits(3))])
    assert (await the_end(Watch(backend), 0)).code == 3
    await set_used(world, 1, "secrets")
    # Other commands are another Secret; the first job's is there.
    waiting = [structs.replace(a_key(number), job="other") for number in range(1, CREATING + 2)]
    await backend.apply([a_launch(world, key, world.programs.exits(4)) for key in waiting])
    assert "exceeded quota" in await step(backend, "QuotaExceeded", waiting[-1])
    await backend.apply([a_launch(world, a_key(99), world.programs.exits(3))])
    assert (await the_end(Watch(backend), 99)).code == 3
    await set_used(world, 0, "secrets")
    watch = Watch(backend)
    for key in waiting:
        (report,) = await watch.until_over(key)
        assert (report.code, report.reason) == (4, ExitReason.EXITED)


async def test_a_full_quota_of_device_claims_is_waited_for(world: World) -> None:
    driver = "gpu.quota.test"
    world.options = {"devices": DeviceRules(classes={driver: driver})}
    backend = await world.start()
    node = world.nodes.names[0] if world.nodes is not None else ""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]}
    await world.kube.create(RESOURCE_SLICES, {"metadata": {"name": f"{node}-{driver}"}, "spec": spec})

    async def is_counted() -> bool:
        return [seen.gpus for seen in await backend.nodes() if seen.name == node] == [1]

    await until(is_counted)
    claims = "count/resourceclaims.resource.k8s.io"
    await world.kube.create(QUOTAS, {"metadata": {"name": "small"}, "spec": {"hard": {claims: "1"}}}, world.namespace)
    await set_used(world, 1, claims)
    launch = a_launch(world, a_key(0), world.programs.exits(3))
    await backend.apply([replace(launch, node=node, devices=(0,))])
    assert "exceeded quota" in await step(backend, "QuotaExceeded")
    await backend.apply([KillTask(a_key(0), 30.0)])
    killed = await the_end(Watch(backend))
    assert (killed.code, killed.reason) == (143, ExitReason.EXITED)
