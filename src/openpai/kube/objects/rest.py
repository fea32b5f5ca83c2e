"""The other kinds: events, secrets, configuration, services, namespaces, claims for volumes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from openpai.kube.objects.meta import Condition, Part, Resource


class ObjectReference(Part, frozen=True, kw_only=True):
    """The object that an event is about."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    field_path: str = ""


class Event(Resource, frozen=True, kw_only=True):
    """What a component of Kubernetes reports about an object."""

    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    """Normal or Warning."""
    reason: str = ""
    message: str = ""
    count: int | None = None
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    action: str = ""
    reporting_component: str = ""
    reporting_instance: str = ""


class Secret(Resource, frozen=True, kw_only=True):
    """A secret; its values are encoded in base64."""

    type: str = ""
    data: dict[str, str] = {}
    immutable: bool | None = None


class ConfigMap(Resource, frozen=True, kw_only=True):
    """A map of configuration, text by name."""

    data: dict[str, str] = {}
    immutable: bool | None = None


class ServicePort(Part, frozen=True, kw_only=True):
    """A port of a service."""

    name: str = ""
    port: int = 0
    protocol: str = "TCP"
    target_port: int | str | None = None


class ServiceSpec(Part, frozen=True, kw_only=True):
    """A service, as it is wanted."""

    type: str = ""
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    selector: dict[str, str] = {}
    ports: list[ServicePort] = []
    publish_not_ready_addresses: bool = False


class Service(Resource, frozen=True, kw_only=True):
    """A service: a name for pods."""

    spec: ServiceSpec = ServiceSpec()


class NamespaceStatus(Part, frozen=True, kw_only=True):
    """Whether a namespace is Active or Terminating."""

    phase: str = ""
    conditions: list[Condition] = []


class Namespace(Resource, frozen=True, kw_only=True):
    """A namespace."""

    status: NamespaceStatus = NamespaceStatus()


class VolumeClaimSpec(Part, frozen=True, kw_only=True):
    """A claim for a volume, as it is wanted."""

    access_modes: list[str] = []
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str | None = None
    resources: dict[str, Any] = {}


class VolumeClaimStatus(Part, frozen=True, kw_only=True):
    """Whether a claim is Pending, Bound or Lost."""

    phase: str = ""
    access_modes: list[str] = []
    capacity: dict[str, str] = {}


class PersistentVolumeClaim(Resource, frozen=True, kw_only=True):
    """A claim for a volume."""

    spec: VolumeClaimSpec = VolumeClaimSpec()
    status: VolumeClaimStatus = VolumeClaimStatus()
