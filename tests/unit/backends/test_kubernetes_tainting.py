"""Rules for bad devices are written by the server that leads, and by no earlier one."""

from __future__ import annotations

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


async def test_a_server_that_leads_no_longer_changes_no_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "Connection", connection_of)
    monkeypatch.setitem(standin._KINDS, "devicetaintrules", ("resource.k8s.io/v1", "DeviceTaintRule"))
    monkeypatch.setattr(standin, "_WITHOUT_NAMESPACE", standin._WITHOUT_NAMESPACE | {"devicetaintrules"})

    async def rules() -> dict[str, tuple[str, str]]:
        found = await client.list(DEVICE_TAINT_RULES)
        return {
            rule.spec.device_selector.device or "": (rule.spec.taint.value, rule.metadata.label(EPOCH_LABEL))
            for rule in found
            if rule.spec.device_selector
        }

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
