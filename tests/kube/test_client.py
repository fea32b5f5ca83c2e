"""The client against a real API server."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from openpai.kube.client import KubeClient
from openpai.kube.config import cluster_access
from openpai.kube.errors import KubeError
from openpai.kube.objects import NAMESPACES, PODS
from openpai.kube.reflector import Reflector


@pytest_asyncio.fixture
async def client(kube_api: Path) -> AsyncIterator[KubeClient]:
    async with KubeClient(cluster_access(kube_api)) as made:
        yield made


@pytest_asyncio.fixture
async def namespace(client: KubeClient) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    return name


def a_pod(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "none"}]}}


async def test_a_delete_with_the_uid_of_an_earlier_object_removes_nothing(client: KubeClient, namespace: str) -> None:
    first = await client.create(PODS, a_pod("a"), namespace)
    await client.delete(PODS, "a", namespace, uid=first.uid, grace_s=0)
    second = await client.create(PODS, a_pod("a"), namespace)
    with pytest.raises(KubeError) as refused:
        await client.delete(PODS, "a", namespace, uid=first.uid, grace_s=0)
    assert refused.value.is_conflict
    assert (await client.get(PODS, "a", namespace)).uid == second.uid


async def test_a_cache_follows_what_happens(client: KubeClient, namespace: str) -> None:
    await client.create(PODS, a_pod("a"), namespace)
    async with Reflector(client, PODS, namespace) as pods:
        await pods.synced.wait()
        changes = pods.subscribe()
        assert [change.new.name for change in changes.take() if change.new] == ["a"]
        await client.delete(PODS, "a", namespace, grace_s=0)
        async for change in changes:
            if change.is_deletion:
                break
        assert len(pods) == 0
