"""Encodes the pods of tasks. What the pods of a role have in common is most of them, and encoded once for all."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from openpai.backends.kubernetes.pods import Parts, PodOptions, RolePod, own_pod, role_pod, task_identity
from openpai.backends.kubernetes.seals import Identity, Seals
from openpai.kube.objects.kinds import PODS
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


class PodBodies:
    """Makes the pods of tasks."""

    def __init__(self, options: PodOptions, seals: Seals) -> None:
        self._options = options
        self._seals = seals
        self._roles: OrderedDict[tuple[object, ...], tuple[_Encoded, Parts]] = OrderedDict()

    def of(self, launch: LaunchTask, parts: Parts) -> PodBody:
        """Return the pod of a task."""
        role, identity = self._role(launch, parts), task_identity(launch)
        own = own_pod(launch, identity, self._options, self._seals, parts, role.pod)
        content = _BODY % (
            msgspec.json.encode(own.metadata), _fields(own.spec), role.spec, _fields(own.container), role.container,
        )  # fmt: skip
        return PodBody(content, identity, own.metadata["annotations"])

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
            pod = role_pod(launch, self._options, parts)
            found = self._roles[made_from] = (_Encoded(pod, _fields(pod.spec), _fields(pod.container)), parts)
            if len(self._roles) > _CACHED:
                self._roles.popitem(last=False)
        return found[0]


def _fields(content: Mapping[str, Any]) -> bytes:
    """Return the fields of an object that has some in JSON, to be followed by others."""
    return msgspec.json.encode(content)[1:-1]
