"""The client against a real API server."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from aiohttp import ClientResponse

from openpai.backends.kubernetes.cached_pods import PodKeeper
from openpai.backends.kubernetes.names import SCOPE_LABEL
from openpai.backends.kubernetes.seals import IDENTITY, SEAL
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects import CONFIG_MAPS, PODS, protobuf
from openpai.kube.objects.kinds import kind
from openpai.kube.objects.meta import PROTOBUF
from openpai.kube.objects.pods import Pod
from openpai.kube.reflector import Reflector


def a_pod(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "none"}]}}


async def test_a_delete_that_names_an_earlier_object_removes_nothing(kube: KubeClient, kube_namespace: str) -> None:
    first = await kube.create(PODS, a_pod("a"), kube_namespace)
    await kube.delete(PODS, "a", kube_namespace, uid=first.uid, grace_s=0)
    second = await kube.create(PODS, a_pod("a"), kube_namespace)
    with pytest.raises(KubeError) as refused:
        await kube.delete(PODS, "a", kube_namespace, uid=first.uid, grace_s=0)
    assert refused.value.is_conflict
    assert (await kube.get(PODS, "a", kube_namespace)).uid == second.uid


async def test_of_a_new_object_only_its_metadata_may_be_asked_for(kube: KubeClient, kube_namespace: str) -> None:
    pod = a_pod("a")
    pod["metadata"]["annotations"] = {"example.com/what": "a test"}
    made = await kube.create(PODS, pod, kube_namespace, only_metadata=True)
    found = await kube.get(PODS, "a", kube_namespace)
    for field in ("name", "namespace", "uid", "resource_version", "annotations"):
        assert getattr(made.metadata, field) == getattr(found.metadata, field)
    assert [len(pod.spec.containers) for pod in (made, found)] == [0, 1]


async def test_of_all_objects_of_a_list_only_the_metadata_may_be_asked_for(
    kube: KubeClient, kube_namespace: str
) -> None:
    await kube.create(PODS, a_pod("a"), kube_namespace)
    found = [
        *await kube.list(PODS, kube_namespace, only_metadata=True),
        *await kube.list(PODS, kube_namespace, only_metadata=False),
    ]
    assert [(pod.name, len(pod.spec.containers)) for pod in found] == [("a", 0), ("a", 1)]
    assert found[0].uid == found[1].uid


async def test_a_cache_follows_what_happens(kube: KubeClient, kube_namespace: str) -> None:
    await kube.create(PODS, a_pod("a"), kube_namespace)
    async with Reflector(kube, PODS, kube_namespace) as pods:
        await pods.synced.wait()
        changes = pods.subscribe()
        assert [change.new.name for change in changes.take() if change.new] == ["a"]
        await kube.delete(PODS, "a", kube_namespace, grace_s=0)
        async for change in changes:
            if change.is_deletion:
                break
        assert len(pods) == 0


async def test_what_is_not_kept_of_an_object_is_no_change_of_it(kube: KubeClient, kube_namespace: str) -> None:
    made = await kube.create(PODS, a_pod("a"), kube_namespace)
    async with Reflector(kube, PODS, kube_namespace, keep=PodKeeper(kube_namespace, "here").kept) as pods:
        await pods.synced.wait()
        changes = pods.subscribe(from_now=True)
        await kube.patch(PODS, "a", {"metadata": {"annotations": {"of": "others"}}}, kube_namespace)
        async with asyncio.timeout(60):
            while [pod.metadata.resource_version for pod in pods] == [made.metadata.resource_version]:  # noqa: ASYNC110  it makes no event
                await asyncio.sleep(0.01)
        assert len(changes) == 0
        await kube.patch(PODS, "a", {"status": {"phase": "Running"}}, kube_namespace, subresource="status")
        (change,) = await changes.wait()
        assert [change.old and change.old.status.phase, change.last.status.phase] == ["Pending", "Running"]


LIMITS = {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "2"}
TIME = "2026-11-27T10:00:00Z"


async def test_a_pod_is_the_same_in_protobuf_and_in_json(kube: KubeClient, kube_namespace: str) -> None:
    overhead = {"apiVersion": "node.k8s.io/v1", "metadata": {"name": kube_namespace}, "handler": "x"}
    classes = kind("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", is_namespaced=False)
    await kube.create(classes, {**overhead, "overhead": {"podFixed": {"cpu": "10m", "memory": "1Mi"}}})
    spec = {
        "containers": [
            {"name": "main", "image": "none", "resources": {"requests": LIMITS, "limits": LIMITS}},
            {"name": "other", "image": "none"},
        ],
        "initContainers": [{"name": "side", "image": "none", "restartPolicy": "Always"}],
        "resources": {"requests": {"cpu": "2"}},
        "runtimeClassName": kube_namespace,
        "priorityClassName": "system-node-critical",
        "schedulerName": "none",
    }
    labels, annotations = {"a": "b", SCOPE_LABEL: "here"}, {"c": "d\n\u00e9", IDENTITY: "i", SEAL: "s"}
    metadata = {"labels": labels, "annotations": annotations, "finalizers": ["example.com/kept"]}
    await kube.create(PODS, {"metadata": {"name": "full", **metadata}, "spec": spec}, kube_namespace)
    ended = {"exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "m", "startedAt": TIME, "finishedAt": TIME}
    health = [{"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-1", "health": "Healthy"}]}]
    common = {"image": "none", "imageID": "", "restartCount": 0}
    status = {
        "phase": "Running",
        "reason": "r",
        "message": "m",
        "startTime": TIME,
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}],
        "containerStatuses": [
            {**common, "name": "main", "ready": True, "state": {"running": {"startedAt": TIME}}},
            {**common, "name": "other", "ready": False, "state": {"terminated": ended}},
        ],
    }
    status["containerStatuses"][0]["allocatedResourcesStatus"] = health  # type: ignore[index]
    await kube.patch(PODS, "full", {"status": status}, kube_namespace, subresource="status")
    await kube.create(PODS, a_pod("bare"), kube_namespace)
    waiting = {
        **common,
        "name": "main",
        "ready": False,
        "state": {"waiting": {"reason": "ErrImagePull", "message": "m"}},
    }
    await kube.patch(PODS, "bare", {"status": {"containerStatuses": [waiting]}}, kube_namespace, subresource="status")
    await kube.create(PODS, a_pod("going") | {"metadata": {"name": "going", **metadata}}, kube_namespace)
    await kube.delete(PODS, "going", kube_namespace, grace_s=0)
    keeper = PodKeeper(kube_namespace, "here")
    try:
        for name in ("full", "bare", "going"):
            path = PODS.path(kube_namespace, name)
            binary = await kube.connection.call("GET", path, doing="read a pod", accept=PROTOBUF)
            found = await kube.get(PODS, name, kube_namespace)
            # These two say what else the text is.
            assert protobuf.pod_of(binary) == msgspec.structs.replace(found, api_version="", kind="")
            assert protobuf.metadata_of(binary) == found.metadata
            assert keeper.kept(keeper.read(binary)) == keeper.kept(found)
        assert not _unset(await kube.get(PODS, "full", kube_namespace))
    finally:
        for name in ("full", "going"):
            await kube.patch(PODS, name, {"metadata": {"finalizers": None}}, kube_namespace)
        await kube.delete(classes, kube_namespace)


def _unset(pod: Pod) -> list[str]:
    """Return the fields that a pod with everything lacks: a comparison shows nothing about those."""
    parts = (pod.metadata, pod.spec, pod.status, *pod.spec.containers[:1], *pod.status.container_statuses[:1])
    left = {"deletion_timestamp", "deletion_grace_period_seconds", "node_name", "restart_policy"}
    return [
        name
        for part in parts
        for name in part.__struct_fields__
        if name not in left and getattr(part, name) in (None, "", (), {}, [])
    ]


async def test_pods_are_watched_in_protobuf(kube: KubeClient, kube_namespace: str) -> None:
    asked: list[str] = []
    stream = kube.connection.stream

    async def noted(*given: Any, **named: Any) -> ClientResponse:
        answer = await stream(*given, **named)
        asked.append(answer.content_type)
        return answer

    kube.connection.stream = noted  # type: ignore[method-assign]
    async with (
        Reflector(kube, PODS, kube_namespace) as pods,
        Reflector(kube, CONFIG_MAPS, kube_namespace) as maps,
    ):
        await asyncio.gather(pods.synced.wait(), maps.synced.wait())
    assert sorted(asked) == ["application/json", PROTOBUF]
