"""A claim asks for the chosen devices, and its status gives the pod exactly these."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from openpai.backends.kubernetes.claims import claim_body, is_ready, status_patch, taint_rule
from openpai.backends.kubernetes.devices import Found
from openpai.kube.objects.kinds import RESOURCE_CLAIMS
from openpai.protocol.errors import Refused
from tests.unit.backends.kubernetes_objects import claim

CLASSES = {"gpu.nvidia.com": "gpu.nvidia.com", "npu.example.com": "npus"}
A = Found("GPU-a", "01", "gpu.nvidia.com", "n1", "gpu-0")
B = Found("GPU-b", "02", "gpu.nvidia.com", "n1", "gpu-1")
N = Found("", "03", "npu.example.com", "n1", "npu-0")


def test_a_claim_selects_its_devices_by_uuid() -> None:
    body = claim_body("task", {"openpai/job": "j"}, [B, A], CLASSES)

    (request,) = body["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == "gpu.nvidia.com"
    assert request["exactly"]["count"] == 2
    (selector,) = request["exactly"]["selectors"]
    assert selector["cel"]["expression"].endswith('.uuid in ["GPU-a", "GPU-b"]')
    assert body["metadata"]["labels"] == {"openpai/job": "j"}


def test_devices_of_two_drivers_are_two_requests() -> None:
    requests = claim_body("task", {}, [N, A], CLASSES)["spec"]["devices"]["requests"]

    assert [request["exactly"]["deviceClassName"] for request in requests] == ["gpu.nvidia.com", "npus"]
    assert "selectors" not in requests[1]["exactly"]


def test_a_claim_holds_no_more_than_the_api_allows() -> None:
    devices = [replace(A, uuid=str(number), name=f"gpu-{number}") for number in range(33)]

    claim_body("task", {}, devices[:32], CLASSES)
    with pytest.raises(Refused, match="a task of 33 GPUs"):
        claim_body("task", {}, devices, CLASSES)


def test_the_status_names_the_devices_the_node_and_the_pod() -> None:
    configuration = {"opaque": {"driver": "npu.example.com", "parameters": {"a": 1}}}
    status = status_patch([N, A], "n1", "pod", "uid-1", {"npu.example.com": [configuration]})["status"]

    results = status["allocation"]["devices"]["results"]
    assert [(each["request"], each["device"]) for each in results] == [("devices-0", "gpu-0"), ("devices-1", "npu-0")]
    assert status["allocation"]["devices"]["config"] == [
        {"source": "FromClass", "requests": ["devices-1"], **configuration}
    ]
    assert status["reservedFor"] == [{"resource": "pods", "name": "pod", "uid": "uid-1"}]


def test_a_claim_is_ready_when_it_holds_the_devices_for_the_pod() -> None:
    body = status_patch([A, B], "n1", "pod", "uid-1", {})
    stored = RESOURCE_CLAIMS.decoder.decode(json.dumps({"metadata": {"name": "c"}, **body}))

    assert is_ready(stored, [B, A], "uid-1")
    assert not is_ready(stored, [A], "uid-1")
    assert not is_ready(stored, [A, B], "uid-2")
    assert not is_ready(claim("empty"), [A, B], "uid-1")


def test_a_taint_rule_is_about_one_device() -> None:
    rule = taint_rule("bad", {}, A, "XID 79: fell off the bus — réseau")

    assert rule["spec"]["deviceSelector"] == {"driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0"}
    assert rule["spec"]["taint"] == {
        "key": "openpai/bad-device",
        "value": "XID-79--fell-off-the-bus---r-seau",
        "effect": "NoSchedule",
    }
