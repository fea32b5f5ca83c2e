"""The kinds of objects: where the API serves them, and the type that each is read as."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final, Generic, TypeVar
from urllib.parse import quote

import msgspec

from openpai.kube.objects.devices import DeviceTaintRule, ResourceClaim, ResourceSlice
from openpai.kube.objects.meta import Anything, ListMeta, Resource
from openpai.kube.objects.nodes import Lease, Node
from openpai.kube.objects.pods import Pod
from openpai.kube.objects.rest import ConfigMap, Event, Namespace, PersistentVolumeClaim, Secret, Service

T = TypeVar("T", bound=Resource)
Item = TypeVar("Item")


class ListOf(msgspec.Struct, Generic[Item], gc=False):
    """One page of a list."""

    metadata: ListMeta = ListMeta()
    items: list[Item] | None = None


class EventOf(msgspec.Struct, Generic[Item], gc=False):
    """One event of a watch."""

    type: str
    object: Item


@lru_cache(maxsize=256)
def _quoted(part: str) -> str:
    return quote(part, safe="")


@dataclass(frozen=True)
class Kind(Generic[T]):
    """A kind of object."""

    api_version: str
    """As in `v1` or `resource.k8s.io/v1`."""
    name: str
    """As in `Pod`."""
    plural: str
    """As in `pods`, the name in the API's paths."""
    type: type[T]
    is_namespaced: bool = True

    @property
    def group(self) -> str:
        """Return the API group; empty for the core."""
        return self.api_version.rpartition("/")[0]

    def at(self, api_version: str) -> Kind[T]:
        """Return the same kind in another version of its API."""
        return replace(self, api_version=api_version)

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of the API; without a namespace, that of all namespaces."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        place = f"/namespaces/{_quoted(namespace)}" if self.is_namespaced and namespace else ""
        parts = "".join([f"/{_quoted(part)}" for part in (name, subresource) if part])
        return f"{root}{place}/{self.plural}{parts}"

    @cached_property
    def decoder(self) -> msgspec.json.Decoder[T]:
        """Return what reads one object."""
        return msgspec.json.Decoder(self.type)

    @cached_property
    def list_decoder(self) -> msgspec.json.Decoder[ListOf[T]]:
        """Return what reads a page of a list."""
        return msgspec.json.Decoder(ListOf[self.type])  # type: ignore[name-defined]

    @cached_property
    def event_decoder(self) -> msgspec.json.Decoder[EventOf[T]]:
        """Return what reads an event of a watch."""
        return msgspec.json.Decoder(EventOf[self.type])  # type: ignore[name-defined]


def kind(api_version: str, name: str, plural: str, *, is_namespaced: bool = True) -> Kind[Anything]:
    """Return a kind that has no type here; its objects are read as `Anything`."""
    return Kind(api_version, name, plural, Anything, is_namespaced)


PODS: Final = Kind("v1", "Pod", "pods", Pod)
NODES: Final = Kind("v1", "Node", "nodes", Node, is_namespaced=False)
LEASES: Final = Kind("coordination.k8s.io/v1", "Lease", "leases", Lease)
EVENTS: Final = Kind("v1", "Event", "events", Event)
SECRETS: Final = Kind("v1", "Secret", "secrets", Secret)
CONFIG_MAPS: Final = Kind("v1", "ConfigMap", "configmaps", ConfigMap)
SERVICES: Final = Kind("v1", "Service", "services", Service)
NAMESPACES: Final = Kind("v1", "Namespace", "namespaces", Namespace, is_namespaced=False)
PERSISTENT_VOLUME_CLAIMS: Final = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", PersistentVolumeClaim)
CSI_DRIVERS: Final = kind("storage.k8s.io/v1", "CSIDriver", "csidrivers", is_namespaced=False)
RESOURCE_SLICES: Final = Kind(
    "resource.k8s.io/v1", "ResourceSlice", "resourceslices", ResourceSlice, is_namespaced=False
)
RESOURCE_CLAIMS: Final = Kind("resource.k8s.io/v1", "ResourceClaim", "resourceclaims", ResourceClaim)
DEVICE_CLASSES: Final = kind("resource.k8s.io/v1", "DeviceClass", "deviceclasses", is_namespaced=False)
DEVICE_TAINT_RULES: Final = Kind(
    "resource.k8s.io/v1", "DeviceTaintRule", "devicetaintrules", DeviceTaintRule, is_namespaced=False
)
