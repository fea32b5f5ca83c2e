"""The kubernetes backend when others interfere and machines fail, on a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from openpai.app.clock import SystemClock
from openpai.backends.kubernetes import cluster, leases, leftovers, watching
from openpai.backends.kubernetes.backend import KubernetesBackend, KubernetesOptions
from openpai.backends.kubernetes.names import FINALIZER
from openpai.backends.kubernetes.node_health import NodeRules
from openpai.backends.kubernetes.pods import PodOptions
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError, silent
from openpai.kube.objects import NAMESPACES, PODS, SECRETS, SERVICES, kind
from openpai.kube.objects.kinds import Kind
from openpai.kube.objects.pods import Pod
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from openpai.ports.backend import Backend, KillTask, Mount, RegistryAuth, TaskStep
from tests.contracts.kubernetes_harness import KubernetesHarness
from tests.contracts.seen import PATIENCE_S, Watch, a_key, a_launch, forget, observed
from tests.kube import fake_nodes
from tests.kube.fake_nodes import LABEL
from tests.kube.server import control_plane, why_not
from tests.pauses import Pauses


async def until(asks: Callable[[], Awaitable[object]]) -> None:
    """Wait until an answer is true."""
    pauses = Pauses()
    async with asyncio.timeout(PATIENCE_S):
        while not await asks():  # noqa: ASYNC110  # what happens at the API server raises no event here
            await asyncio.sleep(pauses.next_s())


async def is_false(asked: Awaitable[object]) -> bool:
    return not await asked


async def has_ended(world: World) -> bool:
    return (await world.the_pod()).has_ended


async def are_healthy(backend: Backend) -> bool:
    return all(node.is_healthy for node in await backend.nodes())


QUOTAS = kind("v1", "ResourceQuota", "resourcequotas")


class World(KubernetesHarness):
    """One backend over a namespace of a test."""

    options: dict[str, Any]

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.options = {}

    def make(self) -> KubernetesBackend:
        assert self.nodes is not None
        options = KubernetesOptions(namespace=self.namespace, nodes=NodeRules({LABEL: self.nodes.id}), **self.options)
        return KubernetesBackend(self.access, self.secret, SystemClock(), options, kept_root=self.kept)

    @property
    def kube(self) -> KubeClient:
        assert self.client is not None
        return self.client

    async def run(self, backend: Backend, number: int = 0, **changes: Any) -> Watch:
        """Start a task that waits, and return once it runs."""
        watch = Watch(backend)
        await backend.apply([a_launch(self, a_key(number), self.programs.waits(), **changes)])
        await watch.until_running(a_key(number))
        return watch

    async def pod(self, number: int = 0) -> Pod | None:
        return await self.kube.find(PODS, self.pod_of(a_key(number)), self.namespace)

    async def the_pod(self, number: int = 0) -> Pod:
        await until(lambda: self.pod(number))
        pod = await self.pod(number)
        assert pod is not None
        return pod


@pytest_asyncio.fixture
async def world(kube_api: Path, tmp_path: Path) -> AsyncIterator[World]:
    World.kubeconfig = kube_api
    made = World(tmp_path)
    try:
        yield made
    finally:
        await made.destroy()


async def the_end(watch: Watch, number: int = 0) -> ExitReport:
    (report,) = await watch.until_over(a_key(number))
    return report


async def step(backend: Backend, word: str, key: AttemptKey | None = None) -> str:
    """Return the message of a step once it is reported."""
    watch = Watch(backend)
    async with asyncio.timeout(PATIENCE_S):
        while not ((seen := watch.seen.get(key or a_key(0))) and seen.step == word):
            await watch._hear()
    return seen.message


async def test_a_pod_deleted_by_hand_is_lost_and_stays_until_that_is_recorded(world: World) -> None:
    backend = await world.start()
    watch = await world.run(backend)
    pod = await world.the_pod()
    await world.kube.delete(PODS, pod.name, world.namespace)
    report = await the_end(watch)
    assert (report.reason, "deleted by another program" in report.message) == (ExitReason.LOST, True)
    assert FINALIZER in ((await world.the_pod()).metadata.finalizers or ())
    await forget(backend, a_key())
    await until(lambda: is_false(world.pod()))


async def test_what_a_pod_removed_by_force_takes_along_is_reported(world: World) -> None:
    world.options = {"pods": PodOptions(fetch_mb_max=1)}
    backend = await world.start()
    watch = await world.run(backend)
    pod = await world.the_pod()
    await world.kube.delete(PODS, pod.name, world.namespace, grace_s=0)
    assert (await the_end(watch)).reason is ExitReason.LOST
    seen = watch.seen[a_key()]
    assert (seen.step, "before the server could fetch it" in seen.message) == (TaskStep.FILES_LOST, True)


async def test_a_pod_deleted_while_no_server_runs_is_reported_by_the_next(world: World) -> None:
    await world.run(await world.start(), grant=5)
    await world.stop()
    pod = await world.the_pod()
    await world.kube.delete(PODS, pod.name, world.namespace)
    await until(lambda: has_ended(world))
    backend = await world.start()
    report = await the_end(Watch(backend))
    assert (report.reason, report.code) == (ExitReason.LOST, 143)


@pytest.mark.parametrize(
    ("act", "reason"),
    [("evict", ExitReason.EVICTED), ("refuse", ExitReason.OUT_OF_RESOURCES)],
)
async def test_what_a_kubelet_does_to_a_pod_has_a_reason_of_its_own(world: World, act: str, reason: ExitReason) -> None:
    backend = await world.start()
    watch = await world.run(backend)
    assert world.nodes is not None
    await getattr(world.nodes, act)(await world.the_pod())
    assert (await the_end(watch)).reason is reason


async def test_an_admission_rule_that_refuses_a_pod_ends_the_task_for_good(world: World) -> None:
    backend = await world.start()
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await world.kube.patch(NAMESPACES, world.namespace, {"metadata": {"labels": labels}})
    await backend.apply([a_launch(world, a_key(), world.programs.exits(0))])
    report = await the_end(Watch(backend))
    assert report.reason is ExitReason.LAUNCH_REFUSED
    assert "violates PodSecurity" in report.message
    assert report.started_at_ms is None


async def test_a_storage_that_the_cluster_cannot_mount_is_refused_with_what_an_administrator_can_do(
    world: World,
) -> None:
    backend = await world.start()
    launch = a_launch(world, a_key(), world.programs.exits(0))
    await backend.apply([replace(launch, mounts=(Mount("lake", "lake", "/mnt/lake", filesystem="lustre"),))])
    report = await the_end(Watch(backend))
    assert report.reason is ExitReason.LAUNCH_REFUSED
    assert "it needs file system lustre; an administrator can mount it on the nodes" in report.message


async def test_a_pod_that_stays_is_explained_and_ends_only_when_its_node_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "STUCK_S", 0.2)
    backend = await world.start()
    await world.run(backend)
    assert world.nodes is not None
    world.nodes.hold_deletions = True
    await backend.apply([KillTask(a_key(), 0.5)])
    assert "has not reported its end" in await step(backend, "StuckTerminating")
    seen = await observed(backend, a_key())
    assert seen is not None
    assert seen.exit is None
    await world.nodes.release_deletions()
    assert (await the_end(Watch(backend))).reason is ExitReason.EXITED


@pytest.fixture
def quick_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_nodes, "HEARTBEAT_S", 0.3)
    monkeypatch.setattr(leases, "SILENCE_S_MIN", 2.0)
    monkeypatch.setattr(leases, "RENEWALS_MISSED", 0.2)
    monkeypatch.setattr(watching, "LOOK_EVERY_S", 0.2)


@pytest.mark.usefixtures("quick_leases")
async def test_tasks_of_a_dead_node_are_lost_after_some_silence(world: World) -> None:
    world.options = {"gives_up_after_s": 3.0}
    backend = await world.start()
    watch = await world.run(backend)
    assert world.nodes is not None
    world.nodes.dead.add(world.node)
    report = await the_end(watch)
    assert (report.reason, world.node in report.message) == (ExitReason.NODE_LOST, True)
    (node,) = [node for node in await backend.nodes() if node.name == world.node]
    assert not node.is_healthy


@pytest.mark.usefixtures("quick_leases")
async def test_without_a_limit_a_dead_nodes_tasks_are_lost_only_on_proof(world: World) -> None:
    world.options = {"gives_up_after_s": 0.0}
    backend = await world.start()
    await world.run(backend)
    assert world.nodes is not None
    world.nodes.dead.add(world.node)
    message = await step(backend, "NodeSilent")
    assert f"kubectl taint node {world.node}" in message
    await asyncio.sleep(3.0)
    seen = await observed(backend, a_key())
    assert seen is not None
    assert seen.exit is None
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    await world.nodes.taint(world.node, taint)
    assert (await the_end(Watch(backend))).reason is ExitReason.NODE_LOST


async def test_a_node_that_is_removed_ends_its_tasks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "GONE_AFTER_S", 0.5)
    backend = await world.start()
    watch = await world.run(backend)
    assert world.nodes is not None
    await world.nodes.remove(world.node)
    assert (await the_end(watch)).reason is ExitReason.NODE_LOST
    await backend.apply([a_launch(world, a_key(1), world.programs.exits(0))])
    late = await the_end(Watch(backend), 1)
    assert (late.reason, late.started_at_ms) == (ExitReason.NODE_LOST, None)


async def test_a_pod_without_our_seal_is_nothing_to_us(world: World) -> None:
    backend = await world.start()
    await world.run(backend)
    pod = await world.the_pod()
    forged = {
        "metadata": {"name": "forged", "labels": pod.metadata.labels, "annotations": pod.metadata.annotations},
        "spec": {"containers": [{"name": "task", "image": "none"}]},
    }
    await world.kube.create(PODS, forged, world.namespace)
    await world.stop()
    backend = await world.start()
    assert [seen.key for seen in await backend.observe()] == [a_key()]
    await forget(backend, a_key())
    await until(lambda: is_false(world.pod()))
    assert await world.kube.find(PODS, "forged", world.namespace) is not None


async def test_a_lost_answer_starts_nothing_twice(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = await world.start()
    create = KubeClient.create
    lost: list[str] = []

    async def and_lose_the_answer(client: KubeClient, what: Kind[Any], *rest: Any, **more: Any) -> Any:
        made = await create(client, what, *rest, **more)
        if what is PODS and not lost:
            lost.append(made.name)
            raise silent("create pods", "connection reset", was_sent=True)
        return made

    monkeypatch.setattr(KubeClient, "create", and_lose_the_answer)
    await backend.apply([a_launch(world, a_key(), world.programs.exits(4))])
    assert (await the_end(Watch(backend))).code == 4
    assert lost == [world.pod_of(a_key())]


async def test_a_launch_that_is_delayed_until_after_the_kill_never_begins(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier server died with its request under way, and this one is to kill the attempt."""
    backend = await world.start()
    create = KubeClient.create
    delayed: list[Any] = []

    async def delay(client: KubeClient, what: Kind[Any], body: Any, *rest: Any, **more: Any) -> Any:
        if what is PODS:
            delayed.append(body)
            await asyncio.Event().wait()
        return await create(client, what, body, *rest, **more)

    monkeypatch.setattr(KubeClient, "create", delay)
    await backend.apply([a_launch(world, a_key(), world.programs.waits())])
    await world.until(lambda: bool(delayed))
    await world.crash()
    monkeypatch.undo()
    backend = await world.start()
    await backend.apply([KillTask(a_key(), 5.0)])
    assert (await the_end(Watch(backend))).reason is ExitReason.ABSENT
    with pytest.raises(KubeError, match="already exists"):
        await world.kube.create(PODS, delayed[0], world.namespace)
    # The next server knows the end, too.
    await world.crash()
    backend = await world.start()
    assert (await the_end(Watch(backend))).reason is ExitReason.ABSENT
    assert world.processes(a_key()) == 0


async def test_a_server_killed_before_it_recorded_the_pod_finds_it(world: World) -> None:
    backend = await world.start()
    launch = a_launch(world, a_key(), world.programs.runs_until_resumed(7), grant=9, devices=(1,))
    await backend.apply([launch])
    await world.the_pod()
    await world.crash()
    backend = await world.start()
    seen = await observed(backend, a_key())
    assert seen is not None
    assert (seen.grant, seen.exit) == (9, None)
    await backend.apply([launch])
    await world.resume(a_key())
    assert (await the_end(Watch(backend))).code == 7


async def test_nothing_of_a_job_is_left_when_its_attempts_are_forgotten(world: World) -> None:
    backend = await world.start()
    hosts = "Worker_A 0 10.0.0.1 ssh=15000\nWorker_A 1 10.0.0.2 ssh=15000\n"
    large = {f"PAI_HOST_IP_{n}": "x" * 100 for n in range(200)}
    shared: dict[str, Any] = {"hosts": hosts, "shared_env": large, "auth": RegistryAuth("ann", "hidden", "r.example")}
    commands = world.programs.exits(0)
    await backend.apply([a_launch(world, a_key(n), commands, **shared) for n in range(4)])
    watch = Watch(backend)
    await watch.until_over(*map(a_key, range(4)))
    secrets = await world.kube.list(SECRETS, world.namespace)
    services = await world.kube.list(SERVICES, world.namespace)
    # Scripts with variables, and credentials, once for all tasks.
    assert (len(secrets), len(services)) == (2, 1)
    await forget(backend, *map(a_key, range(4)))
    for what in (PODS, SECRETS, SERVICES):
        await until(lambda what=what: is_false(world.kube.list(what, world.namespace)))
    # And a later attempt of the same job has all of it again.
    await backend.apply([a_launch(world, a_key(0, attempt=1), commands, **shared)])
    (report,) = await watch.until_over(a_key(0, attempt=1))
    assert report.code == 0


async def test_what_a_killed_server_left_of_a_job_is_swept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "FIRST_SWEEP_S", 0.0)
    monkeypatch.setattr(leftovers, "SWEEP_EVERY_S", 0.0)
    backend = await world.start()
    await world.run(backend)
    used = {found.name for found in await world.kube.list(SECRETS, world.namespace)}
    (of_ours, *_) = await world.kube.list(SECRETS, world.namespace)
    labels = {**(of_ours.metadata.labels or {}), "openpai/job": "0" * 32}
    await world.kube.create(SECRETS, {"metadata": {"name": "left", "labels": labels}}, world.namespace)
    await world.kube.create(SECRETS, {"metadata": {"name": "foreign"}}, world.namespace)
    async with asyncio.timeout(PATIENCE_S):
        while await world.kube.find(SECRETS, "left", world.namespace) is not None:
            await backend.apply([])
            await asyncio.sleep(0.05)
    left = {found.name for found in await world.kube.list(SECRETS, world.namespace)}
    assert left == used | {"foreign"}


@pytest.mark.skipif(bool(why_not()), reason=why_not())
async def test_an_api_server_that_is_away_for_a_while_costs_nothing(tmp_path: Path) -> None:
    with control_plane() as plane:
        World.kubeconfig = plane.kubeconfig
        world = World(tmp_path)
        backend = await world.start()
        await world.run(backend, 0)
        plane.stop("kube-apiserver")
        await until(lambda: is_false(are_healthy(backend)))
        await backend.apply([a_launch(world, a_key(1), world.programs.exits(6)), KillTask(a_key(0), 60.0)])
        await asyncio.sleep(1.0)
        seen = {found.key: found.exit for found in await backend.observe()}
        assert seen == {a_key(0): None, a_key(1): None}
        plane.start_again("kube-apiserver")
        watch = Watch(backend)
        killed, other = await watch.until_over(a_key(0), a_key(1))
        assert (killed.code, killed.reason, other.code) == (143, ExitReason.EXITED, 6)
        await until(lambda: are_healthy(backend))
        await world.destroy()
