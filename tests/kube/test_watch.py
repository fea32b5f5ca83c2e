"""A cache against a real API server and a network that does what networks do: it equals a fresh list afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from openpai.kube.changes import Changes
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects import CONFIG_MAPS, PODS
from openpai.kube.objects.kinds import Kind
from openpai.kube.objects.meta import Resource
from openpai.kube.reflector import Reflector
from openpai.protocol.errors import Refused
from tests.kube.proxy import BadProxy

PATIENCE_S = 60.0
LARGEST = 2 * 1024 * 1024
"""What an API server sends to etcd at most."""


@pytest_asyncio.fixture
async def proxy(kube: KubeClient) -> AsyncIterator[BadProxy]:
    async with BadProxy(kube.access) as made:
        yield made


@pytest_asyncio.fixture
async def through(proxy: BadProxy) -> AsyncIterator[KubeClient]:
    async with KubeClient(proxy.access) as client:
        yield client


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():  # noqa: ASYNC110  # several things change what is asked
            await asyncio.sleep(0.02)


async def equal(cache: Reflector[Any], client: KubeClient, namespace: str) -> None:
    """Return once the cache equals a fresh list; nothing may be changing meanwhile."""
    page = await client.list_page(cache.kind, namespace)
    listed = {found.name: found.metadata.resource_version for found in page.items}
    with contextlib.suppress(TimeoutError):
        await until(lambda: {found.name: found.metadata.resource_version for found in cache} == listed)
    assert {found.name: found.metadata.resource_version for found in cache} == listed


async def lists_again(cache: Reflector[Any], proxy: BadProxy) -> None:
    """End the watch with 410 until the cache was listed again: one event may fall into a line that is being sent."""
    async with asyncio.timeout(PATIENCE_S):
        while cache.lists < 2:
            await proxy.end_with_410()
            # Another one while it is being listed again would begin that again.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S / 6):
                    await until(lambda: cache.lists >= 2)


def a_map(name: str, size: int = 1) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"value": "x" * size}}


def a_pod(name: str, size: int = 1) -> dict[str, Any]:
    # An object may have 256 KB of annotations.
    metadata = {"name": name, "annotations": {"example.com/value": "x" * min(size, 200_000)}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "none"}]}}


MADE: dict[Kind[Any], Callable[..., dict[str, Any]]] = {CONFIG_MAPS: a_map, PODS: a_pod}
"""Kinds whose events come in JSON, and in protobuf."""
of_each_kind = pytest.mark.parametrize("kind", MADE, ids=lambda kind: kind.plural)


@of_each_kind
async def test_a_deletion_while_the_version_expired_is_reported(
    kube: KubeClient, kube_namespace: str, proxy: BadProxy, through: KubeClient, kind: Kind[Any]
) -> None:
    made = MADE[kind]
    kept, gone, again = [await kube.create(kind, made(name), kube_namespace) for name in ("kept", "gone", "again")]
    async with Reflector(through, kind, kube_namespace) as cache:
        await cache.synced.wait()
        changes = cache.subscribe()
        assert {change.last.uid for change in changes.take()} == {kept.uid, gone.uid, again.uid}
        # The watch is cut, and refused as expired until everything has happened.
        proxy.gone_by_status = 10**6
        proxy.reset()
        await until(lambda: cache.trouble is not None)
        await kube.delete(kind, "gone", kube_namespace)
        await kube.delete(kind, "again", kube_namespace)
        later = await kube.create(kind, made("again"), kube_namespace)
        await until(lambda: cache.trouble is not None and "410" in cache.trouble.message)
        proxy.gone_by_status = 0
        await equal(cache, kube, kube_namespace)
        # The list may have been read while the watch was still refused.
        await until(lambda: cache.trouble is None)
        found = changes.take()
        assert {change.last.uid for change in found if change.is_deletion} == {gone.uid, again.uid}
        assert [change.last.uid for change in found if not change.is_deletion] == [later.uid]


@of_each_kind
async def test_410_inside_the_stream_leads_to_a_fresh_list(
    kube: KubeClient, kube_namespace: str, proxy: BadProxy, through: KubeClient, kind: Kind[Any]
) -> None:
    async with Reflector(through, kind, kube_namespace) as cache:
        await cache.synced.wait()
        proxy.is_frozen = True
        await kube.create(kind, MADE[kind]("a"), kube_namespace)
        proxy.is_frozen = False
        await lists_again(cache, proxy)
        await equal(cache, kube, kube_namespace)


async def test_a_silent_stream_is_opened_again(
    kube: KubeClient, kube_namespace: str, proxy: BadProxy, through: KubeClient
) -> None:
    async with Reflector(through, CONFIG_MAPS, kube_namespace, quiet_s=0.5) as cache:
        await cache.synced.wait()
        proxy.is_frozen = True
        await kube.create(CONFIG_MAPS, a_map("a"), kube_namespace)
        await until(lambda: cache.trouble is not None)
        proxy.is_frozen = False
        await equal(cache, kube, kube_namespace)


async def test_without_bookmarks_it_lists_in_pages(
    kube: KubeClient, kube_namespace: str, proxy: BadProxy, through: KubeClient
) -> None:
    proxy.holds_bookmarks = True
    await kube.create(CONFIG_MAPS, a_map("a"), kube_namespace)
    async with Reflector(through, CONFIG_MAPS, kube_namespace, quiet_s=0.3) as cache:
        await until(cache.synced.is_set)
        await equal(cache, kube, kube_namespace)
        assert any("limit=" in path for _, path in proxy.requests)


async def test_a_server_without_streamed_lists_is_listed_in_pages(
    kube: KubeClient, kube_namespace: str, proxy: BadProxy, through: KubeClient
) -> None:
    await kube.create(CONFIG_MAPS, a_map("a"), kube_namespace)
    proxy.refused = (1, 422, "")
    async with Reflector(through, CONFIG_MAPS, kube_namespace) as cache:
        await until(cache.synced.is_set)
        await equal(cache, kube, kube_namespace)


async def test_an_object_of_two_megabytes_arrives(
    kube: KubeClient, kube_namespace: str, proxy: BadProxy, through: KubeClient
) -> None:
    proxy.cuts_lines = True
    large = {"name": "main", "image": "x" * 10, "env": [{"name": "E", "value": "v" * (LARGEST - 8192)}]}
    async with Reflector(through, PODS, kube_namespace) as cache:
        await cache.synced.wait()
        await kube.create(PODS, {"metadata": {"name": "large"}, "spec": {"containers": [large]}}, kube_namespace)
        await equal(cache, kube, kube_namespace)
        await lists_again(cache, proxy)
        await equal(cache, kube, kube_namespace)


async def test_an_object_that_is_too_large_is_refused_for_good(kube: KubeClient, kube_namespace: str) -> None:
    large = {"name": "main", "image": "none", "env": [{"name": "E", "value": "v" * LARGEST}]}
    with pytest.raises(Refused, match="larger than"):
        await kube.create(PODS, {"metadata": {"name": "large"}, "spec": {"containers": [large]}}, kube_namespace)


async def test_a_server_that_is_away_is_found_again(
    kube: KubeClient, kube_namespace: str, proxy: BadProxy, through: KubeClient
) -> None:
    async with Reflector(through, CONFIG_MAPS, kube_namespace) as cache:
        await cache.synced.wait()
        proxy.refused = (3, 503, "0")
        proxy.reset()
        await kube.create(CONFIG_MAPS, a_map("a"), kube_namespace)
        await equal(cache, kube, kube_namespace)
        assert proxy.refused[0] == 0


class Reader:
    """What a reader of changes believes: it must end up with what there is, and hear of every end."""

    def __init__(self, changes: Changes[Any]) -> None:
        self.known: dict[str, Resource] = {}
        self._changes = changes

    async def read(self) -> None:
        while True:
            for change in await self._changes.wait():
                self.understand(change)
            await asyncio.sleep(random.choice((0.0, 0.0, 0.3)))

    def understand(self, change: Any) -> None:
        before = self.known.get(change.last.uid)
        assert (before.metadata.resource_version if before else None) == (
            change.old.metadata.resource_version if change.old else None
        )
        if change.is_deletion:
            self.known.pop(change.last.uid, None)
        else:
            assert change.new is not None
            self.known[change.new.uid] = change.new

    def finish(self) -> None:
        for change in self._changes.take():
            self.understand(change)


class Writer:
    """Creates, changes and deletes at random, and now and then creates what was just deleted."""

    def __init__(self, client: KubeClient, kind: Kind[Any], namespace: str, chance: random.Random) -> None:
        self._client = client
        self._kind = kind
        self._namespace = namespace
        self._chance = chance
        self.count = 0

    async def write(self) -> None:
        name = f"m{self._chance.randrange(30)}"
        size = self._chance.choice((1, 1, 100, 10_000, 900_000))
        with contextlib.suppress(KubeError):
            match self._chance.randrange(4):
                case 0:
                    await self._client.delete(self._kind, name, self._namespace)
                case 1:
                    changed = MADE[self._kind](name, size + 1)
                    patch = {"metadata": changed["metadata"], "data": changed.get("data")}
                    await self._client.patch(self._kind, name, patch, self._namespace)
                case _:
                    await self._client.create(self._kind, MADE[self._kind](name, size), self._namespace)
        self.count += 1


async def misbehave(proxy: BadProxy, chance: random.Random) -> None:
    match chance.randrange(7):
        case 0 | 1:
            proxy.reset()
        case 2:
            await proxy.end_with_410()
        case 3:
            proxy.gone_by_status = chance.randint(1, 2)
            proxy.reset()
        case 4:
            proxy.is_frozen = not proxy.is_frozen
        case 5:
            proxy.cuts_lines = not proxy.cuts_lines
        case _:
            proxy.holds_bookmarks = not proxy.holds_bookmarks


@of_each_kind
@pytest.mark.parametrize(
    ("seed", "rounds"),
    [(1, 3), pytest.param(2, 6, marks=[pytest.mark.full, pytest.mark.timeout(600)])],
)
async def test_whatever_happens_to_its_stream_a_cache_equals_a_fresh_list(
    kube: KubeClient,
    kube_namespace: str,
    proxy: BadProxy,
    through: KubeClient,
    kind: Kind[Any],
    seed: int,
    rounds: int,
) -> None:
    chance = random.Random(seed)
    writer = Writer(kube, kind, kube_namespace, chance)
    async with Reflector(through, kind, kube_namespace, quiet_s=0.7) as cache:
        reader = Reader(cache.subscribe())
        reading = asyncio.create_task(reader.read())
        for _ in range(rounds):
            for _ in range(12):
                await asyncio.gather(*(writer.write() for _ in range(5)))
                await misbehave(proxy, chance)
            proxy.is_frozen = proxy.cuts_lines = proxy.holds_bookmarks = False
            proxy.gone_by_status = 0
            await equal(cache, kube, kube_namespace)
        assert cache.lists > 1
        assert sum(proxy.ended.values()) >= rounds
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading
        reader.finish()
        there = {found.uid: found.metadata.resource_version for found in await kube.list(kind, kube_namespace)}
        assert {uid: found.metadata.resource_version for uid, found in reader.known.items()} == there
