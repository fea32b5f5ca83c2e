"""Tasks that may not run twice at a time, on a real API server, while their node does not answer."""

from __future__ import annotations

import pytest

from openpai.backends.kubernetes import cluster
from openpai.lifecycle.model import ExitReason
from openpai.ports.backend import Backend
from tests.contracts.seen import Watch, a_key, a_launch, observed
from tests.kube.test_backend_faults import World, quick_leases, step, the_end, until, world

__all__ = ["quick_leases", "world"]


async def runs_on(backend: Backend) -> bool:
    """Return whether the task runs and nothing is said of its node."""
    seen = await observed(backend, a_key())
    assert seen is not None
    assert seen.exit is None
    return not seen.step


@pytest.mark.slow
@pytest.mark.usefixtures("quick_leases")
@pytest.mark.parametrize("proof", ["out of service", "removed", "heard again"])
async def test_a_unique_task_is_lost_only_on_proof(world: World, monkeypatch: pytest.MonkeyPatch, proof: str) -> None:
    monkeypatch.setattr(cluster, "GONE_AFTER_S", 0.5)
    world.options = {"gives_up_after_s": 2.5}
    backend = await world.start()
    watch = await world.run(backend, is_unique=True)
    await backend.apply([a_launch(world, a_key(1), world.programs.waits())])
    await watch.until_running(a_key(1))
    assert world.nodes is not None
    world.nodes.dead.add(world.node)
    # Another task of the node is given up, and this one is not, by a new server neither.
    assert (await the_end(watch, 1)).reason is ExitReason.NODE_LOST
    await world.stop()
    backend = await world.start()
    assert f"kubectl taint node {world.node}" in await step(backend, "NodeSilent")
    seen = await observed(backend, a_key())
    assert seen is not None
    assert seen.exit is None
    if proof == "heard again":
        world.nodes.dead.discard(world.node)
        await until(lambda: runs_on(backend))
        return
    if proof == "removed":
        await world.nodes.remove(world.node)
    else:
        await world.nodes.taint(world.node, {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"})
    assert (await the_end(Watch(backend))).reason is ExitReason.NODE_LOST
