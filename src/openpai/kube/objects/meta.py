"""What all kinds of objects have in common: metadata and conditions; and an object of any kind."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
PROTOBUF_MARK: Final = b"k8s\0"
"""What an object in protobuf begins with."""


class Part(msgspec.Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A piece of an object: immutable, with Kubernetes' names in JSON, and nothing written for a field left out.

    The garbage collector does not look at it: what is read from JSON has no cycles, and 10,000 pods are half a million
    pieces that each full collection would visit.
    """


class Meta(Part, frozen=True, kw_only=True):
    """The metadata of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    """The version of the object: compared for equality only."""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    """When the object is to be gone; not None means that its deletion was requested."""
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None

    def label(self, name: str, default: str = "") -> str:
        """Return the value of a label."""
        return (self.labels or {}).get(name, default)

    def annotation(self, name: str, default: str = "") -> str:
        """Return the value of an annotation. Users may write any annotation of a pod: trust none."""
        return (self.annotations or {}).get(name, default)


class Condition(Part, frozen=True, kw_only=True):
    """A condition of an object."""

    type: str = ""
    status: str = "Unknown"
    """True, False or Unknown."""
    reason: str = ""
    message: str = ""


class Resource(Part, frozen=True, kw_only=True):
    """An object: what a client can read, and a cache can hold."""

    api_version: str = ""
    kind: str = ""
    metadata: Meta = Meta()

    @property
    def name(self) -> str:
        """Return the object's name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Return the object's namespace; empty where its kind has none."""
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        """Return what distinguishes the object from an earlier one of the same name."""
        return self.metadata.uid

    @property
    def is_deleting(self) -> bool:
        """Return whether the object's deletion was requested."""
        return self.metadata.deletion_timestamp is not None


class Anything(Resource, frozen=True, kw_only=True):
    """An object of a kind that has no type here: its parts as JSON gives them."""

    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}
    data: dict[str, Any] = {}


class ListMeta(Part, frozen=True, kw_only=True):
    """The metadata of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _OnlyMeta(msgspec.Struct):
    metadata: Meta = Meta()


def metadata_of(content: bytes | msgspec.Raw) -> Meta:
    """Return the metadata of an object of any kind, in JSON; the rest is not read."""
    return msgspec.json.decode(content, type=_OnlyMeta).metadata
