"""Writes the ResourceClaim of a task, the allocation that gives it the chosen devices, and taints on bad devices.

The claim and the pod that names it are created first. The pod names no node yet, and a scheduler that does not exist,
so that nothing else places it. Then one patch of the claim's status allocates the devices and reserves them for the
pod, and last the pod is bound to its node. A kubelet that saw the pod before its claim was reserved would fail to start
it, and try again only after more than ten seconds. A server that dies in between leaves a pod that waits for the next.

The request also selects the devices by UUID. So kube-scheduler, which allocates claims of pods that it places itself,
can give the task no other devices either.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from openpai.backends.kubernetes.devices import Found
from openpai.kube.objects.devices import ResourceClaim
from openpai.kube.objects.kinds import DEVICE_TAINT_RULES, RESOURCE_CLAIMS
from openpai.protocol.errors import Refused

API_VERSIONS: Final = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2")
"""The versions whose claims look as written here, newest first. 1.34 and newer serve the first."""
RULE_VERSIONS: Final = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3")
CLAIM_DEVICES_MAX: Final = 32
"""More results of an allocation are refused by the API."""
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Keeps a deleted claim until its pod has ended; kube-controller-manager removes it."""
CLAIM_NAME: Final = "devices"
"""What the pod calls its claim."""
SCHEDULER: Final = "openpai"
"""The scheduler that a pod with a claim names until the platform binds it."""
TAINT_KEY: Final = "openpai/bad-device"


def claim_body(
    name: str,
    labels: Mapping[str, str],
    devices: Sequence[Found],
    classes: Mapping[str, str],
    version: str = API_VERSIONS[0],
) -> dict[str, Any]:
    """Return the ResourceClaim of a task. `classes` maps each driver to its DeviceClass.

    Raises Refused for more devices than one claim can hold.
    """
    if len(devices) > CLAIM_DEVICES_MAX:
        message = f"a task of {len(devices)} GPUs cannot run on this node: a ResourceClaim holds {CLAIM_DEVICES_MAX}"
        raise Refused("InvalidParametersError", message, f"ask for at most {CLAIM_DEVICES_MAX} GPUs for each task")
    requests = [_request(number, driver, some, classes) for number, (driver, some) in enumerate(_by_driver(devices))]
    return {
        "apiVersion": version,
        "kind": RESOURCE_CLAIMS.name,
        "metadata": {"name": name, "labels": dict(labels), "finalizers": [FINALIZER]},
        "spec": {"devices": {"requests": requests}},
    }


def _by_driver(devices: Iterable[Found]) -> list[tuple[str, list[Found]]]:
    found: dict[str, list[Found]] = {}
    for device in devices:
        found.setdefault(device.driver, []).append(device)
    return sorted(found.items())


def _request_name(number: int) -> str:
    return f"devices-{number}"


def _request(number: int, driver: str, devices: Sequence[Found], classes: Mapping[str, str]) -> dict[str, Any]:
    exactly: dict[str, Any] = {
        "deviceClassName": classes.get(driver, driver),
        "allocationMode": "ExactCount",
        "count": len(devices),
    }
    if all(device.uuid for device in devices):
        # JSON's strings are strings of CEL too.
        uuids = json.dumps(sorted(device.uuid for device in devices))
        expression = f"device.driver == {json.dumps(driver)} && device.attributes[{json.dumps(driver)}].uuid in {uuids}"
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    return {"name": _request_name(number), "exactly": exactly}


def status_patch(
    devices: Sequence[Found], node: str, pod: str, pod_uid: str, config: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, Any]:
    """Return the merge patch of a claim's status that allocates the devices and reserves them for the pod.

    `config` holds the configuration in the DeviceClass of each driver, which the driver expects to find here again.
    """
    results, configs = [], []
    for number, (driver, some) in enumerate(_by_driver(devices)):
        request = _request_name(number)
        results += [{"request": request, "driver": driver, "pool": each.pool, "device": each.name} for each in some]
        configs += [{"source": "FromClass", "requests": [request], **each} for each in config.get(driver, ())]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    allocation = {
        "devices": {"results": results, **({"config": configs} if configs else {})},
        "nodeSelector": {"nodeSelectorTerms": [term]},
    }
    return {"status": {"allocation": allocation, "reservedFor": [{"resource": "pods", "name": pod, "uid": pod_uid}]}}


def is_ready(claim: ResourceClaim, devices: Sequence[Found], pod_uid: str) -> bool:
    """Return whether the claim holds exactly these devices for this pod."""
    allocation = claim.status.allocation
    if allocation is None:
        return False
    has = sorted((result.driver, result.pool, result.device) for result in allocation.devices.results)
    wants = sorted((device.driver, device.pool, device.name) for device in devices)
    return has == wants and any(consumer.uid == pod_uid for consumer in claim.status.reserved_for)


def taint_rule(
    name: str, labels: Mapping[str, str], device: Found, reason: str, version: str = RULE_VERSIONS[0]
) -> dict[str, Any]:
    """Return the DeviceTaintRule that keeps new pods of every scheduler away from a bad device.

    Pods that run on it go on.
    """
    device_selector = {"driver": device.driver, "pool": device.pool, "device": device.name}
    value = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "-" for letter in reason)[
        :63
    ].strip("-_.")
    return {
        "apiVersion": version,
        "kind": DEVICE_TAINT_RULES.name,
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {
            "deviceSelector": device_selector,
            "taint": {"key": TAINT_KEY, "value": value, "effect": "NoSchedule"},
        },
    }
