"""Tasks that a real kube-scheduler places, on the one node that the platform chose."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from openpai.backends.kubernetes.pods import Placement, PodOptions
from openpai.kube.errors import KubeError
from openpai.lifecycle.model import ExitReason
from openpai.ports.backend import KillTask
from tests.contracts.seen import Watch, a_key, a_launch
from tests.kube.test_backend_faults import World, step, the_end, until

pytestmark = pytest.mark.full


@pytest_asyncio.fixture
async def polite(kube_full: Path, tmp_path: Path) -> AsyncIterator[World]:
    World.kubeconfig = kube_full
    made = World(tmp_path)
    made.options = {"pods": PodOptions(placement=Placement.POLITE)}
    try:
        yield made
    finally:
        await made.destroy()


async def has_account(world: World) -> bool:
    """Return whether pods may be created: a controller gives each namespace its service account."""
    try:
        await world.kube.raw("GET", f"/api/v1/namespaces/{world.namespace}/serviceaccounts/default")
    except KubeError:
        return False
    return True


async def test_kube_scheduler_binds_a_task_to_its_node_or_says_why_not(polite: World) -> None:
    backend = await polite.start()
    await until(lambda: has_account(polite))
    assert polite.nodes is not None
    other = next(name for name in polite.nodes.names if name != polite.node)
    watch = Watch(backend)
    places = {0: polite.node, 1: other, 2: other}
    await backend.apply([a_launch(polite, a_key(n), polite.programs.waits(), node=places[n]) for n in places])
    await watch.until_running(*map(a_key, places))
    for number, node in places.items():
        pod = await polite.the_pod(number)
        scheduled = pod.status.condition("PodScheduled")
        assert (pod.spec.node_name, pod.spec.scheduler_name) == (node, "default-scheduler")
        assert scheduled is not None
        assert scheduled.status == "True"
    # Its node is full in the eyes of kube-scheduler, which goes to no other, although that is empty.
    await backend.apply([a_launch(polite, a_key(3), polite.programs.exits(0), cpus=64)])
    assert "Insufficient cpu" in await step(backend, "SchedulingFailed", a_key(3))
    # It is placed as soon as there is room,
    await backend.apply([KillTask(a_key(0), 1.0)])
    (ended,) = await watch.until_over(a_key(3))
    assert (ended.code, (await polite.the_pod(3)).spec.node_name) == (0, polite.node)
    # and one that never is can be stopped.
    await polite.nodes.cordon(other)
    await backend.apply([a_launch(polite, a_key(4), polite.programs.exits(0), node=other)])
    assert "unschedulable" in await step(backend, "SchedulingFailed", a_key(4))
    await backend.apply([KillTask(a_key(4), 1.0)])
    stopped = await the_end(watch, 4)
    assert (stopped.code, stopped.reason, stopped.started_at_ms) == (143, ExitReason.EXITED, None)
