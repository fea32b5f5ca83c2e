"""Tasks that are over leave the API server with few requests, and what can wait comes after a decision."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from openpai.backends.kubernetes import backend as kubernetes_backend
from openpai.kube.connection import Connection
from openpai.kube.objects import PODS, SECRETS, SERVICES
from tests.contracts.seen import Watch, a_key, a_launch, forget
from tests.kube.test_backend_faults import World, is_false, until, world

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
    managed: list[object] = []
    call = Connection.call

    async def noted(self: Connection, method: str, path: str, **named: Any) -> bytes:
        answer = await call(self, method, path, **named)
        if self is not backend._client.connection:
            # Such as the nodes of the test.
            return answer
        if "openpai/job" in dict(named.get("params") or {}).get("labelSelector", "") or method != "GET":
            asked.append((method, path.removeprefix(f"/api/v1/namespaces/{world.namespace}/").partition("/")[0]))
        if method == "PATCH" and "/pods/" in path:
            managed.append(json.loads(await call(self, "GET", path, doing="read"))["metadata"].get("managedFields"))
        return answer

    monkeypatch.setattr(Connection, "call", noted)
    await forget(backend, *keys)
    for what in (PODS, SECRETS, SERVICES):
        await until(lambda what=what: is_false(world.kube.list(what, world.namespace)))
    counts = {each: count for each, count in Counter(asked).items() if each[1] != "configmaps"}
    of_each = {("PATCH", "pods"): 3, ("DELETE", "pods"): 3, ("DELETE", "secrets"): 3}
    assert counts == {**of_each, ("GET", "secrets"): 1, ("GET", "services"): 1}
    # The API server need not work out again who owns which field of a pod that goes.
    assert managed == [None] * 3


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
