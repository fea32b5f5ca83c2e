"""The other kinds: events, secrets, configuration, services, namespaces, claims for volumes."""

from __future__ import annotations

from datetime import datetime

from openpai.kube.objects.meta import Resource


class Event(Resource, frozen=True, kw_only=True):
    """What a component of Kubernetes reports about an object."""

    type: str = ""
    """Normal or Warning."""
    reason: str = ""
    message: str = ""
    last_timestamp: datetime | None = None
    event_time: datetime | None = None


class Secret(Resource, frozen=True, kw_only=True):
    """A secret; its values are encoded in base64."""

    type: str = ""
    data: dict[str, str] = {}


class ConfigMap(Resource, frozen=True, kw_only=True):
    """A map of configuration, text by name."""

    data: dict[str, str] = {}


class Service(Resource, frozen=True, kw_only=True):
    """A service: a name for pods."""


class Namespace(Resource, frozen=True, kw_only=True):
    """A namespace."""


class PersistentVolumeClaim(Resource, frozen=True, kw_only=True):
    """A claim for a volume."""
