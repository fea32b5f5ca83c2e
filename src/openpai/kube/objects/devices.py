"""Dynamic resource allocation: the devices that drivers offer, claims for them, and taints on single devices.

The types fit `resource.k8s.io/v1` and `v1beta2`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from openpai.kube.objects.meta import Condition, Part, Resource


class Attribute(Part, frozen=True, kw_only=True):
    """An attribute of a device: one of four types, or a list."""

    string: str | None = None
    int_: int | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")
    version: str | None = None

    @property
    def value(self) -> str | int | bool | None:
        """Return the value whatever its type."""
        for found in (self.string, self.int_, self.bool_, self.version):
            if found is not None:
                return found
        return None


class Capacity(Part, frozen=True, kw_only=True):
    """How much of something a device has, as a quantity."""

    value: str = "0"


class DeviceTaint(Part, frozen=True, kw_only=True):
    """What keeps claims away from a device."""

    key: str = ""
    value: str = ""
    effect: str = ""
    """NoSchedule or NoExecute; None only reports."""


class Device(Part, frozen=True, kw_only=True):
    """A device that a driver offers. Its name is not stable: its attributes identify it."""

    name: str = ""
    attributes: dict[str, Attribute] = {}
    capacity: dict[str, Capacity] = {}
    taints: list[DeviceTaint] = []
    node_name: str | None = None
    consumes_counters: list[dict[str, Any]] = []


class Pool(Part, frozen=True, kw_only=True):
    """The pool of a slice; slices of an older generation do not count."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Part, frozen=True, kw_only=True):
    """Devices of one driver in one pool."""

    driver: str = ""
    node_name: str | None = None
    node_selector: dict[str, Any] | None = None
    pool: Pool = Pool()
    devices: list[Device] = []


class ResourceSlice(Resource, frozen=True, kw_only=True):
    """Devices of one driver in one pool, of one node or of several."""

    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceResult(Part, frozen=True, kw_only=True):
    """A device that was allocated for a request of a claim."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: list[dict[str, Any]] = []


class DeviceResults(Part, frozen=True, kw_only=True):
    """The devices that were allocated."""

    results: list[DeviceResult] = []
    config: list[dict[str, Any]] = []


class Allocation(Part, frozen=True, kw_only=True):
    """What a claim was given."""

    devices: DeviceResults = DeviceResults()
    node_selector: dict[str, Any] | None = None


class Consumer(Part, frozen=True, kw_only=True):
    """A pod that may use the claim."""

    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDevice(Part, frozen=True, kw_only=True):
    """What the driver reports about a device that it prepared."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    conditions: list[Condition] = []


class ResourceClaimStatus(Part, frozen=True, kw_only=True):
    """A claim, as scheduler and driver see it."""

    allocation: Allocation | None = None
    reserved_for: list[Consumer] = []
    devices: list[AllocatedDevice] = []


class ResourceClaimSpec(Part, frozen=True, kw_only=True):
    """What a claim asks for; its requests as JSON gives them."""

    devices: dict[str, Any] = {}


class ResourceClaim(Resource, frozen=True, kw_only=True):
    """A claim for devices."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class DeviceSelector(Part, frozen=True, kw_only=True):
    """The devices that a rule is about; what is None selects every one."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Part, frozen=True, kw_only=True):
    """A taint, and the devices that it is put on."""

    device_selector: DeviceSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(Resource, frozen=True, kw_only=True):
    """A taint on devices that holds for every scheduler."""

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
