"""What is kept of a pod in memory: a cluster has ten thousand, and few of their fields matter here.

Pods of others matter for what they take of their node, and our own for who they are and how they go. Equal parts are
shared: the pods of a job, or of a DaemonSet, ask for the same.
"""

from __future__ import annotations

from sys import intern
from typing import Final

import msgspec

from openpai.backends.kubernetes.names import SCOPE_LABEL
from openpai.backends.kubernetes.pods import CONTAINER
from openpai.backends.kubernetes.seals import CUT_OFF, IDENTITY, SEAL
from openpai.kube.objects.meta import Condition, Meta
from openpai.kube.objects.pods import ContainerStatus, Pod, PodSpec, PodStatus
from openpai.kube.objects.protobuf import PodReader

_ANNOTATIONS: Final = (IDENTITY, SEAL, CUT_OFF)
_DISRUPTED: Final = "DisruptionTarget"
_SCHEDULED: Final = "PodScheduled"
_CONDITIONS: Final = (_DISRUPTED, _SCHEDULED)
_SHAPES_MAX: Final = 10_000
_STATUSES_MAX: Final = 1_000
"""Few are equal to one of long ago."""


class PodKeeper:
    """Makes small copies of pods, with what the rest of this room reads of them."""

    def __init__(self, namespace: str, scope: str) -> None:
        self._namespace = namespace
        self._scope = scope
        self._labels = {SCOPE_LABEL: scope}
        self._shapes: dict[bytes, PodSpec] = {}
        self._statuses: dict[PodStatus, PodStatus] = {}
        reader = PodReader(labels=(SCOPE_LABEL,), annotations=_ANNOTATIONS, conditions=_CONDITIONS)
        self.read: Final = reader.read
        """Reads of a pod in protobuf what may be kept of it."""

    def kept(self, pod: Pod) -> Pod:
        """Return what is kept of a pod. Whether its seal is good is not asked here."""
        meta = pod.metadata
        is_ours = meta.namespace == self._namespace and meta.label(SCOPE_LABEL) == self._scope
        small = Meta(
            # The cache knows the pod by what it was called first, and the register by the same.
            name=intern(meta.name),
            namespace=intern(meta.namespace),
            uid=intern(meta.uid),
            resource_version=meta.resource_version,
            deletion_timestamp=meta.deletion_timestamp,
            deletion_grace_period_seconds=meta.deletion_grace_period_seconds,
            labels=self._labels if is_ours else None,
            annotations=_sealed(meta) if is_ours else None,
        )
        status = self._shared(_status(pod.status) if is_ours else PodStatus(phase=intern(pod.status.phase)))
        return Pod(metadata=small, spec=self._spec(pod.spec), status=status)

    def _shared(self, status: PodStatus) -> PodStatus:
        """Return an equal status: pods of a gang, and those that run for others, begin in the same second."""
        if len(self._statuses) >= _STATUSES_MAX:
            self._statuses.clear()
        return self._statuses.setdefault(status, status)

    def _spec(self, spec: PodSpec) -> PodSpec:
        # Without the node, which would make as many shapes as there are nodes.
        shape = PodSpec(
            containers=spec.containers,
            init_containers=spec.init_containers,
            overhead=spec.overhead,
            resources=spec.resources,
            scheduler_name=spec.scheduler_name,
        )
        key = msgspec.json.encode(shape)
        if len(self._shapes) >= _SHAPES_MAX:
            self._shapes.clear()
        shared = self._shapes.setdefault(key, shape)
        return PodSpec(
            node_name=intern(spec.node_name),
            containers=shared.containers,
            init_containers=shared.init_containers,
            overhead=shared.overhead,
            resources=shared.resources,
            scheduler_name=shared.scheduler_name,
        )


def _sealed(meta: Meta) -> dict[str, str]:
    kept = {name: meta.annotation(name) for name in (IDENTITY, SEAL)}
    return {**kept, CUT_OFF: why} if (why := meta.annotation(CUT_OFF)) else kept


def _status(status: PodStatus) -> PodStatus:
    return PodStatus(
        phase=intern(status.phase),
        reason=status.reason,
        message=status.message,
        conditions=tuple([each for each in status.conditions if _matters(each)]),
        start_time=status.start_time,
        container_statuses=tuple([_small(each) for each in status.container_statuses if each.name == CONTAINER]),
    )


def _matters(condition: Condition) -> bool:
    return condition.type == _DISRUPTED or (condition.type == _SCHEDULED and condition.status != "True")


def _small(status: ContainerStatus) -> ContainerStatus:
    # What a claim gave is in the claim.
    devices = tuple([each for each in status.allocated_resources_status if not each.name.startswith("claim:")])
    return ContainerStatus(name=CONTAINER, state=status.state, ready=status.ready, allocated_resources_status=devices)
