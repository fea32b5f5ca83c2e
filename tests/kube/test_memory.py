"""What is remembered of nodes survives a write that arrives late, on the stand-in API server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openpai.backends.kubernetes.devices import Remembered
from openpai.backends.kubernetes.memory import PASSED_MAX, Grants, Memory
from openpai.backends.kubernetes.seals import Identity, Seals
from openpai.kube import client as client_module
from openpai.kube.client import KubeClient
from openpai.kube.objects import NAMESPACES
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from tests.kube.standin_connection import StandInAccess, connection_of

PLACE = "jobs"


async def memory(client: KubeClient) -> Memory:
    made = Memory(client, PLACE, Seals(b"secret", PLACE), Grants())
    await made.load()
    return made


def grant(number: int, device: int) -> Identity:
    return Identity(AttemptKey("me~job", 0, "worker", 0, 0), number, "n1", (device,))


async def test_a_write_of_a_paused_server_takes_no_grant_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "Connection", connection_of)
    async with KubeClient(StandInAccess()) as client:
        await client.create(NAMESPACES, {"metadata": {"name": PLACE}})
        first = await memory(client)
        first.grants.heard(grant(3, device=0))
        await first.save()
        second = await memory(client)
        second.grants.heard(grant(8, device=1))
        await second.save()
        first.grants.heard(grant(5, device=0))
        await first.save()
        assert (await memory(client)).grants.of_node("n1") == first.grants.of_node("n1") == {0: 5, 1: 8}


async def test_two_servers_may_write_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "Connection", connection_of)
    async with KubeClient(StandInAccess()) as client:
        await client.create(NAMESPACES, {"metadata": {"name": PLACE}})
        both = [await memory(client), await memory(client)]
        for device, each in enumerate(both):
            each.grants.heard(grant(4, device))
            await each.save()
        assert (await memory(client)).grants.of_node("n1") == {0: 4, 1: 4}


async def test_a_fence_leaves_the_others_to_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "Connection", connection_of)
    async with KubeClient(StandInAccess()) as client:
        await client.create(NAMESPACES, {"metadata": {"name": PLACE}})
        made = await memory(client)
        made.grants.heard(grant(8, device=1))
        made.grants.heard(replace(grant(7, device=1), node="", fence=ExitReport(1, ExitReason.STALE_GRANT, "late")))
        await made.save()
        assert (await memory(client)).grants.of_node("n1") == {1: 8}
        assert (await memory(client)).grants.of_node("") == {}


async def test_grants_wait_while_pods_are_created_and_the_order_of_devices_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "Connection", connection_of)
    async with KubeClient(StandInAccess()) as client:
        await client.create(NAMESPACES, {"metadata": {"name": PLACE}})
        made = await memory(client)
        made.grants.heard(grant(3, device=0))
        await made.save_if_due({}, is_busy=True)
        await made.save_if_due({"n3": (Remembered("", source="nvidia.com/gpu"),)}, is_busy=True)
        assert (await memory(client)).grants.of_node("n1") == {}
        assert (await memory(client)).devices == {}
        order = (Remembered("GPU-1", "0000:01", "gpu.nvidia.com"),)
        await made.save_if_due({"n2": order}, is_busy=True)
        assert (await memory(client)).devices["n2"] == order
        assert (await memory(client)).grants.of_node("n1") == {0: 3}
        made.grants.heard(grant(4, device=0))
        for _ in range(PASSED_MAX - 1):
            await made.save_if_due({}, is_busy=True)
        assert (await memory(client)).grants.of_node("n1") == {0: 3}
        await made.save_if_due({}, is_busy=True)
        assert (await memory(client)).grants.of_node("n1") == {0: 4}


async def test_what_is_known_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "Connection", connection_of)
    opened: list[str] = []
    real = Seals.open

    def noted(seals: Seals, name: str, sealed: str) -> str | None:
        opened.append(name)
        return real(seals, name, sealed)

    async with KubeClient(StandInAccess()) as client:
        await client.create(NAMESPACES, {"metadata": {"name": PLACE}})
        before = await memory(client)
        for node in ("n1", "n2"):
            before.grants.heard(replace(grant(3, device=0), node=node))
        await before.save()
        monkeypatch.setattr(Seals, "open", noted)
        made = await memory(client)
        assert sorted(opened) == ["memory n1", "memory n2"]
        before.grants.heard(grant(4, device=0))
        await before.save()
        await made.load()
        assert opened[2:] == ["memory n1"]
        assert made.grants.of_node("n1") == {0: 4}
