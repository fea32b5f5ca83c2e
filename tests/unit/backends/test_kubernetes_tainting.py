"""Rules for bad devices are written by the server that leads, and by no earlier one."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from openpai.backends.kubernetes.devices import Found
from openpai.backends.kubernetes.epochs import announce
from openpai.backends.kubernetes.names import EPOCH_LABEL
from openpai.backends.kubernetes.tainting import Taints
from openpai.kube import client as client_module
from openpai.kube.client import KubeClient
from openpai.kube.objects import DEVICE_TAINT_RULES
from openpai.ports.store import LeaseLost
from tests.kube import standin
from tests.kube.standin_connection import StandInAccess, connection_of


def bad(*names: str, reason: str = "XID 79") -> dict[tuple[str, str], tuple[Found, str]]:
    found = [Found(uuid=name, driver="gpu.nvidia.com", pool="n1", name=name) for name in names]
    return {("n1", device.identity): (device, reason) for device in found}


@pytest.fixture(autouse=True)
def standin_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "Connection", connection_of)
    monkeypatch.setitem(standin._KINDS, "devicetaintrules", ("resource.k8s.io/v1", "DeviceTaintRule"))
    monkeypatch.setattr(standin, "_WITHOUT_NAMESPACE", standin._WITHOUT_NAMESPACE | {"devicetaintrules"})


async def rules_of(client: KubeClient) -> dict[str, tuple[str, str]]:
    """Return the value and the epoch of each rule, by its device."""
    found = await client.list(DEVICE_TAINT_RULES)
    return {
        rule.spec.device_selector.device or "": (rule.spec.taint.value, rule.metadata.label(EPOCH_LABEL))
        for rule in found
        if rule.spec.device_selector
    }


class _Paused(KubeClient):
    """A client whose process is paused after a number of requests, while another server takes over."""

    requests = 0
    pause_after = -1
    meanwhile: Callable[[], Awaitable[None]]

    async def _next(self) -> None:
        if self.requests == self.pause_after:
            await self.meanwhile()
        self.requests += 1

    async def create(self, *given: Any, **more: Any) -> Any:
        await self._next()
        return await super().create(*given, **more)

    async def patch(self, *given: Any, **more: Any) -> Any:
        await self._next()
        return await super().patch(*given, **more)

    async def get(self, *given: Any, **more: Any) -> Any:
        await self._next()
        return await super().get(*given, **more)

    async def list(self, *given: Any, **more: Any) -> Any:
        await self._next()
        return await super().list(*given, **more)

    async def delete(self, *given: Any, **more: Any) -> None:
        await self._next()
        await super().delete(*given, **more)


@pytest.mark.parametrize(
    ("is_first", "pause_after"), [(True, at) for at in range(6)] + [(False, at) for at in range(5)]
)
async def test_a_server_that_is_paused_between_any_two_requests_changes_nothing_afterwards(
    is_first: bool, pause_after: int
) -> None:
    access = StandInAccess()
    async with KubeClient(access) as client, _Paused(access) as paused:
        earlier, later = (
            Taints(made, DEVICE_TAINT_RULES, "jobs", "s", epoch) for made, epoch in ((paused, 3), (client, 4))
        )
        await announce(client, "jobs", "s", 3)
        if not is_first:
            await earlier.sync(bad("a", "b"))

        async def take_over() -> None:
            await announce(client, "jobs", "s", 4)
            await later.sync(bad("a", "c"))

        paused.requests, paused.pause_after, paused.meanwhile = 0, pause_after, take_over
        with contextlib.suppress(LeaseLost):
            await earlier.sync(bad("a", "d", reason="drained"))
        assert paused.requests > pause_after
        newest = {"a": ("XID-79", "4"), "c": ("XID-79", "4")}
        found = await rules_of(client)
        # What the earlier one began to make is about no device, until the next leader removes it.
        found.pop("none", None)
        assert found == newest
        again = Taints(client, DEVICE_TAINT_RULES, "jobs", "s", 4)
        await again.sync(bad("a", "c"))
        assert await rules_of(client) == newest


async def test_a_server_that_leads_no_longer_changes_no_rule() -> None:
    async def rules() -> dict[str, tuple[str, str]]:
        return {name: rule for name, rule in (await rules_of(client)).items() if name != "none"}

    async with KubeClient(StandInAccess()) as client:
        earlier, later = (Taints(client, DEVICE_TAINT_RULES, "jobs", "s", epoch) for epoch in (3, 4))
        await announce(client, "jobs", "s", 3)
        await earlier.sync(bad("a", "b"))
        assert await rules() == {"a": ("XID-79", "3"), "b": ("XID-79", "3")}
        await announce(client, "jobs", "s", 4)
        await later.sync(bad("a", "c"))
        newest = {"a": ("XID-79", "4"), "c": ("XID-79", "4")}
        assert await rules() == newest
        # The one that wakes up would change, add and remove.
        for wanted in (bad("a", "b", reason="drained"), bad("d"), bad()):
            with pytest.raises(LeaseLost):
                await earlier.sync(wanted)
            assert await rules() == newest
        # What changes nothing asks for nothing.
        writes = client.connection._api.version
        await later.sync(bad("a", "c"))
        assert client.connection._api.version == writes
        await later.sync({})
        assert await rules() == {}
