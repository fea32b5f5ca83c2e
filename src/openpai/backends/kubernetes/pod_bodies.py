"""Encodes the pods of tasks. What the pods of a role have in common is most of them, and encoded once for all.

They are sent in protobuf, which the API server reads more cheaply; in JSON where it does not take that, or where they
have a field that we write in JSON only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from openpai.backends.kubernetes.pods import (
    OwnPod,
    Parts,
    PodOptions,
    RolePod,
    own_pod,
    role_pod,
    task_identity,
    whole_container,
    whole_metadata,
)
from openpai.backends.kubernetes.seals import Identity, Seals
from openpai.kube.objects import pod_writing
from openpai.kube.objects.kinds import PODS
from openpai.kube.objects.meta import PROTOBUF_MARK
from openpai.kube.objects.pods import Pod
from openpai.ports.backend import LaunchTask

_CACHED: Final = 64
_KIND: Final = msgspec.json.encode({"apiVersion": PODS.api_version, "kind": PODS.name})[1:-1]
_BODY: Final = b'{%b,"metadata":%%b,"spec":{%%b,%%b,"containers":[{%%b,%%b}]}}' % _KIND
"""The metadata, then what is the task's own and what is its role's of the spec and of the container."""


@dataclass(frozen=True, slots=True)
class PodBody:
    """A pod of ours as it is sent to the API, and what it is."""

    content: bytes
    identity: Identity
    annotations: Mapping[str, str]
    """Its identity under our seal."""

    @property
    def is_binary(self) -> bool:
        """Return whether it is sent in protobuf."""
        return self.content.startswith(PROTOBUF_MARK)

    @classmethod
    def of(cls, pod: Mapping[str, Any], identity: Identity) -> PodBody:
        """Return a pod, encoded."""
        return cls(msgspec.json.encode(pod), identity, pod["metadata"]["annotations"])

    def identity_of(self, created: Pod) -> Identity | None:
        """Return what the pod that was created of it is; None if it is not certain that it is the same."""
        kept = created.metadata.annotations or {}
        return self.identity if all(kept.get(name) == text for name, text in self.annotations.items()) else None


@dataclass(frozen=True, slots=True)
class _Encoded:
    """The pod of a role, and its fields as they are sent: JSON without the braces around it."""

    pod: RolePod
    spec: bytes
    container: bytes
    binary: tuple[bytes, bytes, bytes] | None
    """Metadata, spec and container in protobuf; None if they cannot be written so."""


class PodBodies:
    """Makes the pods of tasks."""

    def __init__(self, options: PodOptions, seals: Seals) -> None:
        self._options = options
        self._seals = seals
        self._roles: OrderedDict[tuple[object, ...], tuple[_Encoded, Parts]] = OrderedDict()
        self.only_json = False
        """Whether pods are not to be sent in protobuf."""

    def of(self, launch: LaunchTask, parts: Parts) -> PodBody:
        """Return the pod of a task."""
        role, identity = self._role(launch, parts), task_identity(launch)
        own = own_pod(launch, identity, self._options, self._seals, parts, role.pod)
        content = None if self.only_json or role.binary is None else _binary(own, *role.binary)
        return PodBody(content or _json(own, role), identity, own.metadata["annotations"])

    def clear(self) -> None:
        """Keep nothing of the pods that were made: no launch waits for its turn."""
        self._roles.clear()

    def _role(self, launch: LaunchTask, parts: Parts) -> _Encoded:
        # The tasks of a role have the same bundle, and what is kept beside the common part keeps its identity taken.
        key, resources = launch.key, tuple(parts.devices.resources.items())
        made_from = (
            key.job, key.job_attempt, key.role, id(parts.bundle), launch.mounts, bool(parts.claims), resources,
            launch.image, launch.cpus, launch.memory_mb, launch.shm_mb, launch.grace_s, launch.infiniband,
            bool(launch.ports),
        )  # fmt: skip
        found = self._roles.get(made_from)
        if found is None:
            pod = role_pod(launch, self._options, self._seals.scope, parts)
            encoded = _Encoded(pod, _fields(pod.spec), _fields(pod.container), _binary_role(pod))
            found = self._roles[made_from] = encoded, parts
            if len(self._roles) > _CACHED:
                self._roles.popitem(last=False)
        return found[0]


def _json(own: OwnPod, role: _Encoded) -> bytes:
    return _BODY % (
        msgspec.json.encode(whole_metadata(own, role.pod)), _fields(own.spec), role.spec,
        _fields(whole_container(own)), role.container,
    )  # fmt: skip


def _binary(own: OwnPod, metadata: bytes, spec: bytes, container: bytes) -> bytes | None:
    """Return a pod in protobuf; None if it cannot be written so."""
    try:
        return pod_writing.pod(
            pod_writing.written("Meta", own.metadata) + metadata,
            pod_writing.written("PodSpec", own.spec) + spec,
            pod_writing.variables(own.variables) + pod_writing.written("Container", own.container) + container,
        )
    except pod_writing.NotListed:
        return None


def _binary_role(pod: RolePod) -> tuple[bytes, bytes, bytes] | None:
    try:
        return (
            pod_writing.written("Meta", pod.metadata),
            pod_writing.written("PodSpec", pod.spec),
            pod_writing.written("Container", pod.container),
        )
    except pod_writing.NotListed:
        return None


def _fields(content: Mapping[str, Any]) -> bytes:
    """Return the fields of an object that has some in JSON, to be followed by others."""
    return msgspec.json.encode(content)[1:-1]
