"""The client against a real API server."""

from __future__ import annotations

import pytest

from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects import PODS
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
    made = await kube.create(PODS, a_pod("a"), kube_namespace, only_metadata=True)
    found = await kube.get(PODS, "a", kube_namespace)
    assert (made.uid, made.metadata.resource_version) == (found.uid, found.metadata.resource_version)
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
