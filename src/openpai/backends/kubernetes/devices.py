"""The devices of a node: which there are, which index each has, and how a pod asks for them.

A device has no number of its own: drivers rename and renumber devices at every restart. The scheduler, on the other
hand, knows devices by their index on the node. So each node's list of devices is remembered, and `numbered` gives a
device that was seen before the index that it had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Final

DEVICES_MAX: Final = 256
"""More devices of one node are ignored: a limit on what a faulty driver can make us remember."""


class GpuMode(StrEnum):
    """How the pods of a node get devices."""

    DRA = "dra"
    """A claim names each device by its driver, its pool and its name: the task gets exactly these."""
    PLUGIN = "plugin"
    """The pod asks for a number of devices, and the kubelet chooses which."""
    ENV = "env"
    """A variable names the devices. Nothing keeps a container from using others."""
    NONE = "none"
    """The node has no devices."""


@dataclass(frozen=True, slots=True)
class Vendor:
    """How the container runtime of one vendor is asked for devices by variables."""

    variable: str
    none: str
    """The value that gives a container no device."""
    elsewhere: str = "void"
    """The value for a container that gets its devices in another way."""


NVIDIA: Final = Vendor("NVIDIA_VISIBLE_DEVICES", "none")
VENDORS: Final[Mapping[str, Vendor]] = {
    "nvidia.com/*": NVIDIA,
    "gpu.nvidia.com": NVIDIA,
    "amd.com/*": Vendor("AMD_VISIBLE_DEVICES", "none"),
    "gpu.amd.com": Vendor("AMD_VISIBLE_DEVICES", "none"),
    "huawei.com/*": Vendor("ASCEND_VISIBLE_DEVICES", "void"),
}
"""By extended resource or driver."""


@dataclass(frozen=True, slots=True)
class Found:
    """A device as a driver describes it now. What the driver does not say is empty."""

    uuid: str = ""
    slot: str = ""
    """The address on the PCI bus."""
    driver: str = ""
    pool: str = ""
    name: str = ""
    resource: str = ""
    """The extended resource that counts the device."""
    model: str = ""
    problem: str = ""
    """Why no task may get it, in words."""

    @property
    def identity(self) -> str:
        """Return what stays the same when the driver renames its devices."""
        return self.uuid or self.slot or f"{self.driver}/{self.pool}/{self.name}"

    @property
    def source(self) -> str:
        """Return what offers the device: a driver or an extended resource."""
        return self.driver or self.resource


@dataclass(frozen=True, slots=True)
class Remembered:
    """A device as it was seen last at one index."""

    identity: str
    """Empty for a device that is only counted."""
    slot: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """The devices of one node by index. None stands for a device that was there once and is missing now."""

    mode: GpuMode = GpuMode.NONE
    devices: tuple[Found | None, ...] = ()
    remembered: tuple[Remembered, ...] = ()

    @property
    def model(self) -> str:
        """Return the model that most devices have."""
        models = Counter(device.model for device in self.devices if device and device.model)
        return min(models, key=lambda model: (-models[model], model)) if models else ""

    @property
    def problems(self) -> dict[int, str]:
        """Return why devices cannot be used, by index."""
        problems = {index: device.problem if device else "is missing" for index, device in enumerate(self.devices)}
        return {index: problem for index, problem in problems.items() if problem}


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """What a pod needs to get the devices of a task."""

    resources: Mapping[str, int] = field(default_factory=dict)
    """Extended resources of the container: both requests and limits."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables, which replace those of the task."""
    unset: frozenset[str] = frozenset()
    """Variables that the container must not have: the kubelet sets them, and a pod's variables override these."""
    claim: tuple[Found, ...] = ()
    """Devices for a ResourceClaim of the pod; empty if it needs none."""
    is_exact: bool = True
    """Whether the container gets the devices at these indices. If not, what it got is read back."""


def numbered(
    remembered: Sequence[Remembered], found: Iterable[Found]
) -> tuple[tuple[Found | None, ...], tuple[Remembered, ...]]:
    """Return the devices by index, and what to remember.

    A device keeps its index. A device that replaced another in its PCI slot takes over that index. Any other new device
    takes the index of one that is missing, or else the next; the first time, devices are numbered by PCI address.
    """
    known = list(remembered)
    devices: list[Found | None] = [None] * len(known)
    new = _place_known(known, devices, sorted(found, key=_order))
    new = _place_replaced(known, devices, new)
    for device in new:
        vacant = next((index for index, there in enumerate(devices) if there is None), len(devices))
        if vacant == len(devices):
            if vacant == DEVICES_MAX:
                break
            devices.append(None)
        devices[vacant] = device
    seen = [
        Remembered(device.identity, device.slot, device.source) if device else known[index]
        for index, device in enumerate(devices)
    ]
    return tuple(devices), tuple(seen)


def _order(device: Found) -> tuple[str, str, str, str, str, str]:
    return (device.resource, device.slot, device.uuid, device.driver, device.pool, device.name)


def _place_known(known: Sequence[Remembered], devices: list[Found | None], found: Iterable[Found]) -> list[Found]:
    places = {was.identity: index for index, was in enumerate(known) if was.identity}
    new = []
    for device in found:
        index = places.pop(device.identity, None)
        if index is None:
            new.append(device)
        else:
            devices[index] = device
    return new


def _place_replaced(known: Sequence[Remembered], devices: list[Found | None], new: Sequence[Found]) -> list[Found]:
    # Partitions of one card have the same slot, so only a slot that occurs once identifies a device.
    was_at = Counter(was.slot for was in known if was.slot)
    is_at = Counter(device.slot for device in new if device.slot)
    vacant = {was.slot: index for index, was in enumerate(known) if was_at[was.slot] == 1 and devices[index] is None}
    left = []
    for device in new:
        index = vacant.get(device.slot) if is_at[device.slot] == 1 else None
        if index is None:
            left.append(device)
        else:
            devices[index] = device
    return left


# All devices of a cluster that are only counted are alike.
@lru_cache(maxsize=4096)
def _counted_device(identity: str, resource: str, problem: str) -> Found:
    return Found(identity, resource=resource, problem=problem)


def counted(remembered: Sequence[Remembered], capacity: Mapping[str, int], usable: Mapping[str, int]) -> NodeDevices:
    """Return the devices of a node whose kubelet only counts them, by extended resource.

    Devices that the kubelet counted once and does not count now are missing. The API does not show which device cannot
    be used, so the last ones are taken.
    """
    kept = list(remembered)
    for resource in sorted(capacity):
        have = sum(was.source == resource for was in kept)
        kept += [Remembered("", source=resource)] * (min(capacity[resource], DEVICES_MAX - len(kept)) - have)
    places: dict[str, list[int]] = {}
    for index, was in enumerate(kept):
        places.setdefault(was.source, []).append(index)
    devices: list[Found | None] = [None] * len(kept)
    for resource, indices in places.items():
        there = capacity.get(resource, 0)
        for number, index in enumerate(indices[:there]):
            problem = "" if number < usable.get(resource, 0) else "its kubelet does not offer it"
            devices[index] = _counted_device(kept[index].identity, resource, problem)
    return NodeDevices(GpuMode.PLUGIN if kept else GpuMode.NONE, tuple(devices), tuple(kept))


def with_grant(
    remembered: Sequence[Remembered], indices: Sequence[int], uuids: Iterable[str], settled: frozenset[int]
) -> tuple[Remembered, ...] | None:
    """Return what to remember when the task at `indices` of a node that counts devices really got `uuids`.

    The kubelet chose other devices than the scheduler: they exchange their indices, so the indices of the task name
    the devices that it has. `settled` are the indices of other running tasks whose devices are known; None means that
    the report contradicts one of them, or that it is not about as many devices, and changes nothing.
    """
    got = sorted(set(uuids))
    if len(got) != len(indices) or any(not 0 <= index < len(remembered) for index in indices):
        return None
    now = list(remembered)
    for uuid in got:
        at = next((index for index, was in enumerate(now) if was.identity == uuid), None)
        if at in indices:
            continue
        if at is not None and at in settled:
            return None
        place = next(index for index in indices if now[index].identity not in got)
        if at is None:
            now[place] = replace(now[place], identity=uuid)
        elif now[at].source != now[place].source:
            return None
        else:
            now[at], now[place] = now[place], now[at]
    return tuple(now)


def device_request(devices: NodeDevices, indices: Sequence[int]) -> DeviceRequest:
    """Return what a pod needs to get the devices at `indices` of its node. Raises LookupError if one is missing."""
    if not indices:
        nothing = {vendor.variable: vendor.none for vendor in VENDORS.values()}
        return DeviceRequest(env={**nothing, "CUDA_VISIBLE_DEVICES": ""})
    chosen = tuple(_present(devices, index) for index in indices)
    if devices.mode is GpuMode.PLUGIN:
        usable = tuple([device.resource for device in devices.devices if device and not device.problem])
        return _counted(tuple([(device.source, device.resource) for device in chosen]), usable)
    inside = _numbered_inside(len(chosen))
    vendors = {vendor_of(device.source) for device in chosen}
    if devices.mode is GpuMode.DRA:
        # Or the runtime would add devices by a variable of the image, beside those of the claim.
        elsewhere = {vendor.variable: vendor.elsewhere for vendor in vendors}
        return DeviceRequest(env={**inside, **elsewhere}, claim=chosen)
    named = [device.uuid or str(index) for device, index in zip(chosen, indices, strict=True)]
    return DeviceRequest(env={**inside, **{vendor.variable: ",".join(named) for vendor in vendors}})


# Each pod asks, and the nodes of a cluster are of a few kinds.
@lru_cache(maxsize=256)
def _counted(chosen: tuple[tuple[str, str], ...], usable: tuple[str, ...]) -> DeviceRequest:
    """Return the request for devices, by source and resource, of which the kubelet counts the usable ones."""
    names = [resource for _, resource in chosen]
    resources = {name: names.count(name) for name in names}
    return DeviceRequest(
        resources=resources,
        env=_numbered_inside(len(chosen)),
        unset=frozenset([vendor_of(source).variable for source, _ in chosen]),
        is_exact=all(count == usable.count(name) for name, count in resources.items()),
    )


def _numbered_inside(count: int) -> dict[str, str]:
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(count)))}


def _present(devices: NodeDevices, index: int) -> Found:
    device = devices.devices[index] if 0 <= index < len(devices.devices) else None
    if device is None:
        raise LookupError(f"the node has no GPU {index}")
    return device


@cache
def vendor_of(resource: str) -> Vendor:
    """Return the vendor of an extended resource or a driver; NVIDIA's variables for an unknown one."""
    return next((vendor for pattern, vendor in VENDORS.items() if fnmatchcase(resource, pattern)), NVIDIA)
