"""Reads the devices of a node from the ResourceSlices of its drivers, and which of them a claim holds.

A driver publishes its devices in pools, a pool in one slice or several. While it replaces them, slices of two
generations exist side by side and some may be missing; such a pool is read as it was before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from openpai.backends.kubernetes.devices import Found
from openpai.kube.objects.devices import Device, DeviceTaintRule, ResourceClaim, ResourceSlice

_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})
_UUID: Final = "uuid"
_BUS: Final = ("resource.kubernetes.io/pciBusID", "pciBusID", "pciAddress", "pciAddr")
_MODEL: Final = ("productName", "model", "deviceModel")
_KIND: Final = "type"
_WHOLE: Final = ("", "gpu", "npu", "mig")

Place = tuple[str, str, str]
"""Driver, pool and name of a device."""


def pools_of(slices: Iterable[ResourceSlice]) -> dict[tuple[str, str], tuple[Found, ...]]:
    """Return the devices of each complete pool, by driver and pool."""
    newest: dict[tuple[str, str], list[ResourceSlice]] = {}
    for each in slices:
        held = newest.setdefault((each.spec.driver, each.spec.pool.name), [])
        if held and each.spec.pool.generation > held[0].spec.pool.generation:
            held.clear()
        if not held or each.spec.pool.generation == held[0].spec.pool.generation:
            held.append(each)
    return {
        pool: tuple(found for each in parts for found in _devices(each))
        for pool, parts in newest.items()
        if len(parts) == parts[0].spec.pool.resource_slice_count
    }


def _devices(each: ResourceSlice) -> Iterator[Found]:
    for device in each.spec.devices:
        if not _is_partition(device, each.spec.driver):
            yield Found(
                uuid=_attribute(device, each.spec.driver, (_UUID,)),
                slot=_attribute(device, each.spec.driver, _BUS).lower(),
                driver=each.spec.driver,
                pool=each.spec.pool.name,
                name=device.name,
                model=_attribute(device, each.spec.driver, _MODEL),
                problem=_taints(device),
            )


def _is_partition(device: Device, driver: str) -> bool:
    """Return whether the device is one of the ways to partition a card, which the driver lists beside the card."""
    kind = _attribute(device, driver, (_KIND,)).lower()
    return kind not in _WHOLE or (kind != "gpu" and bool(device.consumes_counters))


def _attribute(device: Device, driver: str, names: Iterable[str]) -> str:
    for name in names:
        found = device.attributes.get(name) or device.attributes.get(f"{driver}/{name}")
        if found is not None and found.value is not None:
            return str(found.value)
    return ""


def _taints(device: Device) -> str:
    taints = [taint for taint in device.taints if taint.effect in _EFFECTS]
    return f"its driver reports {', '.join(_worded(taint.key, taint.value) for taint in taints)}" if taints else ""


def _worded(key: str, value: str) -> str:
    return f"{key}={value}" if value else key


def with_rules(devices: Iterable[Found], rules: Iterable[DeviceTaintRule]) -> tuple[Found, ...]:
    """Return the devices with a problem where a DeviceTaintRule keeps pods away from them."""
    active = [rule for rule in rules if rule.spec.taint.effect in _EFFECTS and rule.spec.device_selector is not None]
    return tuple(_ruled(device, active) for device in devices)


def _ruled(device: Found, rules: Iterable[DeviceTaintRule]) -> Found:
    for rule in rules:
        selector = rule.spec.device_selector
        if device.problem or selector is None:
            continue
        wanted = ((selector.driver, device.driver), (selector.pool, device.pool), (selector.device, device.name))
        if all(one is None or one == other for one, other in wanted):
            message = f"DeviceTaintRule {rule.name}: {_worded(rule.spec.taint.key, rule.spec.taint.value)}"
            return replace(device, problem=message)
    return device


def places_of(claim: ResourceClaim) -> tuple[Place, ...]:
    """Return the devices that a claim holds."""
    if claim.status.allocation is None:
        return ()
    results = claim.status.allocation.devices.results
    # Access for administrators is monitoring and leaves the device to others.
    return tuple((each.driver, each.pool, each.device) for each in results if not each.admin_access)


def with_holders(devices: Iterable[Found], held: Mapping[Place, str]) -> tuple[Found, ...]:
    """Return the devices with a problem where a claim of others holds them."""
    found = []
    for device in devices:
        claim = held.get((device.driver, device.pool, device.name))
        found.append(replace(device, problem=f"held by claim {claim}") if claim and not device.problem else device)
    return tuple(found)
