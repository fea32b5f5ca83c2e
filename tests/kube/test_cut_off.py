"""What a server that takes over knows of pods that an earlier one deleted before their tasks ran."""

from __future__ import annotations

from openpai.backends.kubernetes.seals import CUT_OFF
from openpai.kube.objects import PODS
from openpai.lifecycle.model import ExitReason
from tests.contracts.seen import Watch, a_key, a_launch
from tests.kube.test_backend_faults import World, the_end, until, world

__all__ = ["world"]


async def test_a_server_that_takes_over_knows_why_a_pod_is_deleted_and_believes_no_copy(world: World) -> None:
    backend = await world.start()
    assert world.nodes is not None
    await world.run(backend, 1)
    world.nodes.hold_deletions = True
    world.nodes.plays[world.pod_of(a_key())] = lambda nodes, pod: nodes.stick(pod, message="manifest unknown")
    await backend.apply([a_launch(world, a_key(), world.programs.waits())])

    async def is_deleted(number: int) -> bool:
        return (await world.the_pod(number)).is_deleting

    await until(lambda: is_deleted(0))
    await world.crash()
    copied, other = (await world.the_pod()).metadata.annotation(CUT_OFF), await world.the_pod(1)
    assert copied
    await world.kube.patch(PODS, other.name, {"metadata": {"annotations": {CUT_OFF: copied}}}, world.namespace)
    await world.kube.delete(PODS, other.name, world.namespace)
    await until(lambda: is_deleted(1))
    watch = Watch(await world.start())
    await world.nodes.release_deletions()
    report = await the_end(watch)
    assert (report.reason, report.message) == (ExitReason.IMAGE_MISSING, "manifest unknown")
    assert (await the_end(watch, 1)).reason is ExitReason.LOST
