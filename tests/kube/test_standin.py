"""What the platform relies on, of the real API server and of the stand-in: the same tests pass on both."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from openpai.kube import client as client_module
from openpai.kube.client import STRATEGIC_PATCH, KubeClient
from openpai.kube.config import cluster_access
from openpai.kube.errors import KubeError
from openpai.kube.objects import CONFIG_MAPS, NAMESPACES, NODES, PODS
from openpai.kube.objects.pods import Pod
from openpai.kube.reflector import Reflector
from tests.kube.standin_connection import StandInAccess, connection_of

FINALIZER = "openpai/exit"


class Place:
    """A namespace of one API server."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def create(self, name: str = "a", *, node: str = "n", finalizer: bool = False, **labels: str) -> Pod:
        meta: dict[str, Any] = {"name": name, "labels": labels}
        if finalizer:
            meta["finalizers"] = [FINALIZER]
        spec: dict[str, Any] = {"containers": [{"name": "main", "image": "none"}]}
        if node:
            spec["nodeName"] = node
        return await self.client.create(PODS, {"metadata": meta, "spec": spec}, self.namespace)

    async def delete(self, name: str = "a", **how: Any) -> None:
        await self.client.delete(PODS, name, self.namespace, **how)

    async def find(self, name: str = "a") -> Pod | None:
        return await self.client.find(PODS, name, self.namespace)

    async def there(self, name: str = "a") -> Pod:
        found = await self.find(name)
        assert found is not None
        return found

    async def patch(self, body: dict[str, Any], name: str = "a", **how: Any) -> Pod:
        return await self.client.patch(PODS, name, body, self.namespace, **how)

    async def status(self, phase: str, **meta: str) -> Pod:
        return await self.patch({"metadata": meta, "status": {"phase": phase}}, subresource="status")

    async def drop_finalizer(self, **meta: str) -> None:
        body = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER], **meta}}
        await self.patch(body, how=STRATEGIC_PATCH)


@pytest_asyncio.fixture(params=["stand-in", pytest.param("real", marks=pytest.mark.slow)])
async def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    monkeypatch.setattr(client_module, "Connection", connection_of)
    access = cluster_access(request.getfixturevalue("kube_api")) if request.param == "real" else StandInAccess()
    namespace = f"t-{uuid.uuid4().hex[:8]}"
    async with KubeClient(access) as client:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        made = Place(client, namespace)
        yield made
        for pod in await client.list(PODS, namespace):
            if pod.metadata.finalizers:
                await client.patch(PODS, pod.name, {"metadata": {"finalizers": None}}, namespace)
            await delete_quietly(made, pod.name)


async def delete_quietly(place: Place, name: str) -> None:
    if await place.find(name):
        await place.delete(name, grace_s=0)


async def refused(work: Any) -> KubeError:
    with pytest.raises(KubeError) as found:
        await work
    return found.value


async def test_a_name_is_taken_once(place: Place) -> None:
    first = await place.create()
    assert (await refused(place.create())).is_there_already
    assert (await place.there()).uid == first.uid
    assert (first.status.phase, first.spec.scheduler_name) == ("Pending", "default-scheduler")
    assert (await refused(place.client.get(PODS, "b", place.namespace))).is_missing


async def test_a_bound_pod_is_deleted_in_two_steps(place: Place) -> None:
    await place.create()
    await place.delete(grace_s=20)
    pod = await place.there()
    assert (pod.is_deleting, pod.metadata.deletion_grace_period_seconds) == (True, 20)
    # Only a shorter grace period changes anything.
    await place.delete(grace_s=25)
    assert (await place.there()).metadata.deletion_grace_period_seconds == 20
    await place.delete(grace_s=5)
    assert (await place.there()).metadata.deletion_grace_period_seconds == 5
    await place.delete(grace_s=0)
    assert await place.find() is None


async def test_the_default_grace_period_is_the_pods_own(place: Place) -> None:
    await place.create()
    await place.delete()
    assert (await place.there()).metadata.deletion_grace_period_seconds == 30


@pytest.mark.parametrize("node", ["", "n"])
async def test_what_runs_nowhere_goes_at_once(place: Place, node: str) -> None:
    await place.create(node=node)
    if node:
        await place.status("Succeeded")
    await place.delete(grace_s=20)
    assert await place.find() is None


async def test_a_finalizer_keeps_a_pod_until_node_and_owner_let_go(place: Place) -> None:
    await place.create(finalizer=True)
    await place.delete(grace_s=20)
    await place.drop_finalizer()
    # The grace period is the node's.
    assert (await place.there()).metadata.deletion_grace_period_seconds == 20
    await place.delete(grace_s=0)
    assert await place.find() is None


async def test_a_pod_removed_by_force_stays_under_its_finalizer(place: Place) -> None:
    await place.create(finalizer=True)
    await place.delete(grace_s=0)
    pod = await place.there()
    assert (pod.is_deleting, pod.metadata.deletion_grace_period_seconds) == (True, 0)
    # Its end can still be reported.
    assert (await place.status("Failed")).status.phase == "Failed"
    await place.drop_finalizer()
    assert await place.find() is None


async def test_writes_that_name_another_pod_change_nothing(place: Place) -> None:
    pod = await place.create(finalizer=True)
    other = "00000000-0000-4000-8000-000000000001"
    assert (await refused(place.delete(uid=other))).is_conflict
    assert (await refused(place.delete(resource_version="1"))).is_conflict
    for patch in (place.status("Failed", uid=other), place.drop_finalizer(uid=other)):
        assert (await refused(patch)).http == 422
    assert (await place.there()).metadata.resource_version == pod.metadata.resource_version


async def test_a_status_and_the_rest_are_written_apart(place: Place) -> None:
    await place.create()
    body = {"metadata": {"labels": {"x": "y"}}, "status": {"phase": "Running"}}
    assert (await place.patch(body)).status.phase == "Pending"
    spec = {"spec": {"nodeName": "other"}, "status": {"phase": "Running"}}
    pod = await place.patch(spec, subresource="status")
    assert (pod.status.phase, pod.spec.node_name, pod.metadata.label("x")) == ("Running", "n", "y")
    # What changes nothing makes no new version.
    assert (await place.status("Running")).metadata.resource_version == pod.metadata.resource_version


async def test_a_pod_is_bound_once(place: Place) -> None:
    pod = await place.create(node="")
    client, namespace = place.client, place.namespace
    assert (await refused(client.bind("a", namespace, "n", uid="00000000-0000-4000-8000-000000000001"))).is_conflict
    await client.bind("a", namespace, "n", uid=pod.uid)
    assert (await place.there()).spec.node_name == "n"
    assert (await refused(client.bind("a", namespace, "m"))).is_conflict
    assert (await place.there()).spec.node_name == "n"


async def test_only_the_newest_version_is_replaced(place: Place) -> None:
    client, namespace = place.client, place.namespace
    first = await client.create(CONFIG_MAPS, {"metadata": {"name": "m"}, "data": {"a": "1", "b": "1"}}, namespace)
    await client.patch(CONFIG_MAPS, "m", {"data": {"a": "2", "b": None}}, namespace)
    old = {"metadata": {"name": "m", "resourceVersion": first.metadata.resource_version}, "data": {"a": "3"}}
    assert (await refused(client.replace(CONFIG_MAPS, "m", old, namespace))).is_conflict
    assert (await refused(client.patch(CONFIG_MAPS, "m", old, namespace))).is_conflict
    version = first.metadata.resource_version
    assert (await refused(client.delete(CONFIG_MAPS, "m", namespace, resource_version=version))).is_conflict
    assert (await client.get(CONFIG_MAPS, "m", namespace)).data == {"a": "2"}


async def test_selectors_select(place: Place) -> None:
    await place.create("a", team="red", part="x")
    await place.create("b", team="blue", part="y", node="")
    await place.create("c", team="red", part="z")
    client = place.client

    async def names(**selectors: str) -> list[str]:
        return sorted(pod.name for pod in await client.list(PODS, place.namespace, **selectors))

    assert await names(labels="team=red") == ["a", "c"]
    assert await names(labels="team=red,part in (x,y)") == ["a"]
    assert await names(labels="part in (x, z)") == ["a", "c"]
    assert await names(labels="other") == []
    assert await names(fields="spec.nodeName=n") == ["a", "c"]
    assert await names(fields="metadata.name=b") == ["b"]


async def test_a_list_comes_in_pages_of_one_version(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PAGE", 2)
    for name in "abcde":
        await place.create(name)
    page = await place.client.list_page(PODS, place.namespace)
    assert [pod.name for pod in page.items] == list("abcde")
    assert page.resource_version


async def test_a_cache_hears_of_every_change(place: Place) -> None:
    await place.create("before", team="red")
    async with Reflector(place.client, PODS, place.namespace, labels="team=red") as cache, asyncio.timeout(60):
        changes = cache.subscribe()
        await place.create("a", finalizer=True, team="red")
        await place.create("other", team="blue")
        await place.patch({"metadata": {"labels": {"team": "blue"}}}, "before")
        await place.status("Running")
        await place.delete(grace_s=0)
        heard = {}
        while (last := heard.get("a")) is None or not last.last.is_deleting or "before" in [p.name for p in cache]:
            for change in await changes.wait():
                heard[change.last.name] = change
        # An object that is no longer selected is gone, and one that a finalizer keeps is not.
        assert sorted(pod.name for pod in cache) == ["a"]
        assert last.last.status.phase == "Running"
        await place.drop_finalizer()
        while len(cache):
            await changes.wait()
        assert "other" not in heard


async def test_a_cluster_wide_object_has_no_namespace(place: Place) -> None:
    name = f"n-{place.namespace}"
    await place.client.create(NODES, {"metadata": {"name": name}})
    found = await place.client.get(NODES, name)
    assert (found.namespace, found.name) == ("", name)
    await place.client.delete(NODES, name)
    assert await place.client.find(NODES, name) is None
