"""Tasks that are over leave the API server with few requests, and what can wait comes after a decision."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from openpai.backends.kubernetes import backend as kubernetes_backend
from openpai.backends.kubernetes import removing
from openpai.backends.kubernetes.names import FINALIZER
from openpai.kube.client import KubeClient
from openpai.kube.connection import Connection
from openpai.kube.errors import KubeError
from openpai.kube.objects import PODS, SECRETS, SERVICES
from tests.contracts.seen import PATIENCE_S, Watch, a_key, a_launch, forget
from tests.kube.test_backend_faults import World, is_false, the_end, until, world

__all__ = ["world"]


async def test_the_pods_of_jobs_that_end_together_are_removed_with_few_requests(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await world.start()
    keys = [replace(a_key(), job=f"{number:032x}") for number in range(3)]
    launches = [a_launch(world, key, world.programs.exits(0), devices=(at,)) for at, key in enumerate(keys)]
    await backend.apply(launches)
    await Watch(backend).until_over(*keys)
    asked: list[tuple[str, str]] = []
    patched: list[dict[str, Any]] = []
    call = Connection.call

    async def noted(self: Connection, method: str, path: str, **named: Any) -> bytes:
        answer = await call(self, method, path, **named)
        if self is not backend._client.connection:
            # Such as the nodes of the test.
            return answer
        if "openpai/job" in dict(named.get("params") or {}).get("labelSelector", "") or method != "GET":
            asked.append((method, path.removeprefix(f"/api/v1/namespaces/{world.namespace}/").partition("/")[0]))
        if method == "PATCH" and "/pods/" in path:
            patched.append(json.loads(named["body"])["metadata"])
            with pytest.raises(KubeError) as missing:
                await call(self, "GET", path, doing="read")
            assert missing.value.is_missing
        return answer

    monkeypatch.setattr(Connection, "call", noted)
    await forget(backend, *keys)
    for what in (PODS, SECRETS, SERVICES):
        await until(lambda what=what: is_false(world.kube.list(what, world.namespace)))
    counts = {each: count for each, count in Counter(asked).items() if each[1] != "configmaps"}
    of_each = {("PATCH", "pods"): 3, ("DELETE", "pods"): 3, ("DELETE", "secrets"): 3}
    assert counts == {**of_each, ("GET", "secrets"): 1, ("GET", "services"): 1}
    # The API server need not work out again who owns which field of a pod that goes.
    assert [change["managedFields"] for change in patched] == [[{}]] * 3


async def test_what_can_wait_comes_after_the_decision_about_what_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_backend, "_PRECEDENCE_S", 1e9)
    backend = await world.start()
    await backend.apply([a_launch(world, a_key(0), world.programs.exits(0))])
    watch = Watch(backend)
    await watch.until_over(a_key(0))
    created = asyncio.Event()

    async def create() -> None:
        created.set()

    backend._creating.add(create)
    for _ in range(3):
        await asyncio.sleep(0)
        assert not created.is_set()
    # The decision, with which all goes on.
    await backend.apply([a_launch(world, a_key(1), world.programs.exits(0))])
    await watch.until_over(a_key(1))
    assert created.is_set()


async def test_a_server_killed_between_a_deletion_and_the_end_of_its_finalizer_leaves_no_pod(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await world.start()
    watch = Watch(backend)
    await backend.apply([a_launch(world, a_key(), world.programs.exits(3))])
    await the_end(watch)
    patch, begun = KubeClient.patch, asyncio.Event()

    async def never(client: KubeClient, *given: Any, **named: Any) -> Any:
        if FINALIZER not in str(given):
            return await patch(client, *given, **named)
        begun.set()
        return await asyncio.Event().wait()

    monkeypatch.setattr(KubeClient, "patch", never)
    monkeypatch.setattr(removing, "_PATIENCE_S", 0.0)
    await forget(backend, a_key())
    async with asyncio.timeout(PATIENCE_S):
        await begun.wait()
    await world.crash()
    assert (await world.the_pod()).metadata.deletion_timestamp
    monkeypatch.setattr(KubeClient, "patch", patch)
    backend = await world.start()
    # The next server hears of the end once more, and that it is known.
    assert (await the_end(Watch(backend))).code == 3
    await forget(backend, a_key())
    await until(lambda: is_false(world.pod()))
