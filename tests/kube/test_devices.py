"""Devices of a real kubelet: a container sees exactly the GPUs that the scheduler chose, whoever else uses the node."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from openpai.backends.kubernetes.claims import CLAIM_NAME, SCHEDULER, claim_body, is_ready, status_patch, taint_rule
from openpai.backends.kubernetes.devices import Found, GpuMode, device_request
from openpai.backends.kubernetes.nodes import DeviceRules, NodeTable
from openpai.kube.client import KubeClient
from openpai.kube.config import cluster_access
from openpai.kube.errors import KubeError
from openpai.kube.objects import DEVICE_TAINT_RULES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from openpai.kube.objects.devices import ResourceClaim
from openpai.kube.objects.pods import Pod
from openpai.kube.reflector import Reflector
from tests.kube.fake_gpu_driver import GPUS, FakeGpuDriver
from tests.kube.images import SHELL_IMAGE
from tests.kube.node import RealNode
from tests.unit.backends.kubernetes_objects import is_ours

pytestmark = pytest.mark.full

DRIVER = "gpu.openpai.test"
CLASSES = {DRIVER: DRIVER}
RULES = DEVICE_TAINT_RULES.at("resource.k8s.io/v1beta2")
SPACE = "default"
UNTIL_ASKED = "env; while [ ! -e /tmp/go ]; do sleep 0.1; done"


@pytest.fixture
def node(gpu_driver: FakeGpuDriver) -> RealNode:
    return gpu_driver.node


@pytest_asyncio.fixture
async def kube(node: RealNode) -> AsyncIterator[KubeClient]:
    async with KubeClient(cluster_access(node.plane.kubeconfig)) as client:
        yield client


@pytest_asyncio.fixture
async def pods(kube: KubeClient) -> AsyncIterator[Reflector[Pod]]:
    async with Reflector(kube, PODS, SPACE) as pods:
        await pods.synced.wait()
        yield pods
        for pod in list(pods):
            await kube.delete(PODS, pod.name, SPACE, grace_s=0)


async def table(kube: KubeClient, remembered: Any = None) -> NodeTable:
    nodes = NodeTable(is_ours, device_rules=DeviceRules(classes=CLASSES), remembered=remembered)
    for node in await kube.list(NODES):
        nodes.put_node(node)
    for each in await kube.list(RESOURCE_SLICES):
        nodes.put_slice(each)
    for claim in await kube.list(RESOURCE_CLAIMS):
        nodes.put_claim(claim)
    for rule in await kube.list(RULES):
        nodes.put_taint_rule(rule)
    return nodes


def pod_body(name: str, env: dict[str, str], command: str = "env", *, is_theirs: bool = False) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": SHELL_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", command],
        "env": [{"name": key, "value": value} for key, value in env.items()],
        "resources": {"claims": [{"name": CLAIM_NAME}]},
    }
    spec = {
        **({} if is_theirs else {"schedulerName": SCHEDULER}),
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [container],
        "resourceClaims": [{"name": CLAIM_NAME, "resourceClaimName": name}],
    }
    return {"metadata": {"name": name, "labels": {"owner": "us"}}, "spec": spec}


async def launch(
    kube: KubeClient, nodes: NodeTable, node: str, name: str, indices: tuple[int, ...], command: str = "env", **env: str
) -> Pod:
    """Start a pod with the devices at some indices, as the backend does."""
    request = device_request(nodes.devices(node), indices)
    await kube.create(RESOURCE_CLAIMS, claim_body(name, {"owner": "us"}, request.claim, CLASSES), SPACE)
    pod = await kube.create(PODS, pod_body(name, {**request.env, **env}, command), SPACE)
    patch = status_patch(request.claim, node, name, pod.uid, {})
    claim = await kube.patch(RESOURCE_CLAIMS, name, patch, SPACE, subresource="status")
    assert is_ready(claim, request.claim, pod.uid)
    await kube.bind(name, SPACE, node, uid=pod.uid)
    return pod


async def ended(pods: Reflector[Pod], *names: str) -> None:
    left = set(names)
    changes = pods.subscribe()
    async with asyncio.timeout(200):
        async for change in changes:
            if change.new is not None and change.new.has_ended:
                assert change.new.status.phase == "Succeeded", change.new.status
                left.discard(change.new.name)
            if not left:
                return


async def gpus_in(kube: KubeClient, name: str) -> set[str]:
    message = b"".join([chunk async for chunk in kube.logs(name, SPACE)]).decode()
    pairs = (line.partition("=") for line in message.splitlines())
    return {value for key, _, value in pairs if key.startswith("FAKE_GPU_")}


async def test_a_container_sees_exactly_the_chosen_gpus(
    kube: KubeClient, gpu_driver: FakeGpuDriver, node: RealNode, pods: Reflector[Pod]
) -> None:
    nodes = await table(kube)
    (seen,) = nodes.seen()
    assert (seen.gpus, seen.gpu_model, seen.bad_devices) == (8, "Fake H100", frozenset())
    assert nodes.devices(node.name).mode is GpuMode.DRA

    await launch(kube, nodes, node.name, "few", (5, 2))
    await launch(kube, nodes, node.name, "most", (0, 1, 3, 4, 6, 7))
    await ended(pods, "few", "most")

    assert await gpus_in(kube, "few") == {GPUS[5], GPUS[2]}
    assert await gpus_in(kube, "most") == {GPUS[index] for index in (0, 1, 3, 4, 6, 7)}
    assert ("few", (GPUS[5], GPUS[2])) in gpu_driver.prepared


async def test_indices_name_the_same_gpus_after_the_driver_renamed_them(
    kube: KubeClient, gpu_driver: FakeGpuDriver, node: RealNode, pods: Reflector[Pod]
) -> None:
    nodes = await table(kube)
    nodes.seen()
    remembered = nodes.unsaved()
    await asyncio.to_thread(gpu_driver.publish, [f"gpu-{(number * 3 + 1) % 8}" for number in range(8)])

    nodes = await table(kube, remembered)
    await launch(kube, nodes, node.name, "renamed", (1, 6))
    await ended(pods, "renamed")
    assert await gpus_in(kube, "renamed") == {GPUS[1], GPUS[6]}


async def test_a_forged_variable_or_annotation_gives_no_gpu(
    kube: KubeClient, node: RealNode, pods: Reflector[Pod]
) -> None:
    nodes = await table(kube)
    request = device_request(nodes.devices(node.name), (3,))
    forged = pod_body("forged", {})
    forged["metadata"]["annotations"] = {"openpai/devices": "0,1,2,3", "cdi.k8s.io/x": "fake.openpai.test/gpu=gpu-0"}
    await kube.create(RESOURCE_CLAIMS, claim_body("forged", {}, request.claim, CLASSES), SPACE)
    pod = await kube.create(PODS, forged, SPACE)
    await kube.patch(
        RESOURCE_CLAIMS,
        "forged",
        status_patch(request.claim, node.name, "forged", pod.uid, {}),
        SPACE,
        subresource="status",
    )
    await kube.bind("forged", SPACE, node.name, uid=pod.uid)
    await ended(pods, "forged")
    assert await gpus_in(kube, "forged") == {GPUS[3]}


async def test_mixed_placements_beside_pods_of_others(kube: KubeClient, node: RealNode, pods: Reflector[Pod]) -> None:
    """Pods of others get their GPUs from kube-scheduler; ours are placed on what these left."""
    chance = random.Random(12)
    for turn in range(2):
        theirs = f"theirs-{turn}"
        count = chance.randint(1, 3)
        exactly = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": count}
        spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        await kube.create(RESOURCE_CLAIMS, {"metadata": {"name": theirs}, "spec": spec}, SPACE)
        body = pod_body(theirs, {}, UNTIL_ASKED, is_theirs=True)
        del body["metadata"]["labels"]
        await kube.create(PODS, body, SPACE)
        await running(pods, theirs)

        nodes = await table(kube)
        taken = nodes.seen()[0].bad_devices
        assert len(taken) == count
        free = [index for index in range(8) if index not in taken]
        chance.shuffle(free)
        mine = {f"mine-{turn}-a": tuple(free[:2]), f"mine-{turn}-b": tuple(free[2:])}
        for name, indices in mine.items():
            await launch(kube, nodes, node.name, name, indices)
        await ended(pods, *mine)
        for name, indices in mine.items():
            assert await gpus_in(kube, name) == {GPUS[index] for index in indices}
        await let_end(kube, theirs)
        await ended(pods, theirs)
        assert await gpus_in(kube, theirs) == {GPUS[index] for index in taken}
        await kube.delete(RESOURCE_CLAIMS, theirs, SPACE)


async def let_end(kube: KubeClient, name: str) -> None:
    async with await kube.exec(name, SPACE, ["touch", "/tmp/go"]) as session:
        # The container may end before the command does that lets it.
        assert (await session.collect())[0] in (0, 137)


async def running(pods: Reflector[Pod], name: str) -> None:
    async with asyncio.timeout(200):
        async for change in pods.subscribe():
            if change.new is not None and change.new.name == name and change.new.status.phase == "Running":
                return


async def test_the_devices_of_a_task_are_free_when_its_pod_has_ended(
    kube: KubeClient, node: RealNode, pods: Reflector[Pod]
) -> None:
    nodes = await table(kube)
    await launch(kube, nodes, node.name, "short", (4,), UNTIL_ASKED)
    await running(pods, "short")
    async with Reflector(kube, RESOURCE_CLAIMS, SPACE) as claims, asyncio.timeout(200):
        await claims.synced.wait()
        changes = claims.subscribe()
        await kube.delete(RESOURCE_CLAIMS, "short", SPACE)
        assert (await kube.get(RESOURCE_CLAIMS, "short", SPACE)).status.allocation is not None
        await let_end(kube, "short")
        await ended(pods, "short")
        async for change in changes:
            if change.last.name == "short" and change.is_deletion:
                break


async def test_a_taint_rule_takes_a_gpu_from_every_scheduler(kube: KubeClient, node: RealNode) -> None:
    nodes = await table(kube)
    bad = nodes.devices(node.name).devices[7]
    assert isinstance(bad, Found)
    await kube.create(RULES, taint_rule("bad-gpu", {}, bad, "XID 79", RULES.api_version))
    assert (await table(kube)).seen()[0].bad_devices == {7}
    await kube.delete(RULES, "bad-gpu")


async def test_an_account_needs_the_right_to_bind_claims(
    kube: KubeClient, node: RealNode, pods: Reflector[Pod]
) -> None:
    """From 1.36 on: the verbs that the chart grants are enough, and without `binding` an allocation is refused."""
    every = {"apiGroups": ["resource.k8s.io"], "verbs": ["get", "create", "update", "patch", "delete"]}
    rights = [{**every, "resources": ["resourceclaims", "resourceclaims/status"]}]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "pai"},
        "rules": rights,
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "pai"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "pai"},
        "subjects": [{"kind": "User", "name": "pai", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    await kube.raw("POST", roles, role)
    await kube.raw("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    nodes = await table(kube)
    request = device_request(nodes.devices(node.name), (0,))
    kubeconfig: Path = node.plane.kubeconfig_for("pai", "pai")
    async with KubeClient(cluster_access(kubeconfig)) as limited:
        await limited.create(RESOURCE_CLAIMS, claim_body("bound", {}, request.claim, CLASSES), SPACE)
        patch = status_patch(request.claim, node.name, "bound", "uid", {})
        with pytest.raises(
            KubeError, match=r'resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope'
        ):
            await limited.patch(RESOURCE_CLAIMS, "bound", patch, SPACE, subresource="status")
        granted = [{**every, "resources": ["resourceclaims", "resourceclaims/status", "resourceclaims/binding"]}]
        await kube.raw("PUT", f"{roles}/pai", {**role, "rules": granted})
        claim = await allowed_in_the_end(
            lambda: limited.patch(RESOURCE_CLAIMS, "bound", patch, SPACE, subresource="status")
        )
        assert claim.status.allocation is not None


async def allowed_in_the_end(work: Callable[[], Awaitable[ResourceClaim]]) -> ResourceClaim:
    """Return what a request answers once the API server has heard of a new right."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(KubeError):
                return await work()
            await asyncio.sleep(0.1)
