"""On nodes whose kubelet chooses devices, the indices of a grant come to name what its task really got."""

from __future__ import annotations

from openpai.backends.kubernetes.backend import KubernetesBackend
from openpai.kube.objects import NODES
from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import Backend, NodeSeen
from tests.contracts.seen import Watch, a_key, a_launch
from tests.kube.test_backend_faults import World, until, world

__all__ = ["world"]

GPU = "nvidia.com/gpu"


async def run_on(world: World, backend: Backend, number: int, devices: tuple[int, ...], *got: str) -> AttemptKey:
    """Start a task that waits, and let its kubelet give it these devices."""
    assert world.nodes is not None
    key = a_key(number)
    world.nodes.given[world.pod_of(key)] = {GPU: list(got)} if got else {}
    await backend.apply([a_launch(world, key, world.programs.waits(), devices=devices, grant=number + 1)])
    await Watch(backend).until_running(key)
    return key


async def the_node(world: World, backend: Backend) -> NodeSeen:
    return next(node for node in await backend.nodes() if node.name == world.node)


async def has(world: World, backend: Backend, *devices: str) -> None:
    async def asks() -> bool:
        return (await the_node(world, backend)).devices == devices

    await until(asks)


async def test_grants_name_what_the_kubelet_gave(world: World) -> None:
    backend = await world.start()
    await run_on(world, backend, 0, (0, 1), "GPU-d", "GPU-c")
    await has(world, backend, "GPU-c", "GPU-d", "", "")
    await run_on(world, backend, 1, (2,), "GPU-a")
    await has(world, backend, "GPU-c", "GPU-d", "GPU-a", "")
    # The next server reads the same from the pods and from what was saved, and goes on.
    await world.stop()
    backend = await world.start()
    await has(world, backend, "GPU-c", "GPU-d", "GPU-a", "")
    # A device that another task certainly has is not exchanged, nor is a wrong number of them.
    await run_on(world, backend, 2, (3,), "GPU-a")
    await run_on(world, backend, 3, (3,), "GPU-b", "GPU-e")
    await has(world, backend, "GPU-c", "GPU-d", "GPU-a", "")


async def test_a_container_of_an_older_kubelet_is_asked_and_cannot_take_what_others_have(world: World) -> None:
    backend = await world.start()
    assert isinstance(backend, KubernetesBackend)
    assert world.nodes is not None
    info = {"status": {"nodeInfo": {"kubeletVersion": "v1.34.1"}}}
    await world.kube.patch(NODES, world.node, info, subresource="status")

    async def is_older() -> bool:
        return backend._cluster.table.kubelet(world.node) == "v1.34.1"

    await until(is_older)
    uuid = "GPU-{}1111111-2222-3333-4444-555555555555".format
    answers = {world.pod_of(a_key(1)): uuid(1), world.pod_of(a_key(2)): uuid(1)}
    asked: list[str] = []

    async def answer(pod: str) -> str:
        asked.append(pod)
        return answers[pod]

    backend._received._answer = answer  # type: ignore[method-assign]
    await run_on(world, backend, 1, (0,))
    await has(world, backend, uuid(1), "", "", "")
    # The next one claims the same, and its kubelet says nothing: the first is believed.
    liar = await run_on(world, backend, 2, (1,))
    await until(lambda: _is(len(asked) == 2))
    await has(world, backend, uuid(1), "", "", "")
    assert asked == list(answers)
    # What a kubelet says goes before what containers said.
    await run_on(world, backend, 3, (2,), uuid(1))
    await has(world, backend, "", "", uuid(1), "")
    assert backend._register.get(liar) is not None


async def _is(so: bool) -> bool:
    return so
