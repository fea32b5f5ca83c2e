"""Adds up what pods of others take of each node, which our tasks cannot have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from openpai.kube.objects.pods import Container, Pod, PodSpec
from openpai.kube.quantities import milli, whole

_CPU: Final = "cpu"
_MEMORY: Final = "memory"
_KUBERNETES_OWN: Final = ("ephemeral-storage", "hugepages-", "pods", "storage")


@dataclass(slots=True)
class Use:
    """What pods take of a node."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    resources: dict[str, int] = field(default_factory=dict)
    """Extended resources."""
    pods: int = 0

    def add(self, other: Use, times: int = 1) -> None:
        """Add what another takes, or remove it with `times=-1`."""
        self.cpu_milli += times * other.cpu_milli
        self.memory_bytes += times * other.memory_bytes
        self.pods += times * other.pods
        for name, count in other.resources.items():
            self.resources[name] = self.resources.get(name, 0) + times * count
            if not self.resources[name]:
                del self.resources[name]


def requested(spec: PodSpec) -> Use:
    """Return what a pod takes of its node, by the scheduler's rules.

    Containers add up with sidecars. A plain init container runs before them, with the sidecars started before it, so
    the larger counts. Requests of the whole pod replace the sum, and its overhead is added.
    """
    running = _sum(map(_container, spec.containers))
    peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in spec.init_containers:
        if container.restart_policy == "Always":
            sidecars = _sum((sidecars, _container(container)))
            peak = _max(peak, sidecars)
        else:
            peak = _max(peak, _sum((sidecars, _container(container))))
    total = _max(_sum((running, sidecars)), peak)
    if spec.resources is not None:
        total = {**total, **_quantities(spec.resources.amounts)}
    total = _sum((total, _quantities(spec.overhead or {})))
    cpu, memory = total.pop(_CPU, 0), total.pop(_MEMORY, 0)
    return Use(cpu, memory, {name: count for name, count in total.items() if not name.startswith(_KUBERNETES_OWN)}, 1)


def _container(container: Container) -> dict[str, int]:
    return _quantities(container.resources.amounts)


def _quantities(given: Mapping[str, str]) -> dict[str, int]:
    return {name: milli(text) if name == _CPU else whole(text) for name, text in given.items()}


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return total


def _max(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


class ForeignPods:
    """What the pods of others take of each node, kept up to date pod by pod."""

    def __init__(self, is_ours: Callable[[Pod], bool], changed: Callable[[str], None] = lambda _: None) -> None:
        """`changed` is called with a node of which these pods take more or less than before."""
        self._is_ours = is_ours
        self._changed = changed
        self._pods: dict[str, tuple[str, Use]] = {}
        self._nodes: dict[str, Use] = {}

    def put(self, pod: Pod) -> bool:
        """Record a pod as it is now; return whether what is left of a node changed."""
        before = self._pods.get(pod.uid)
        node = pod.spec.node_name
        # A pod that is being deleted takes its part until the kubelet has ended it.
        if not node or pod.has_ended or self._is_ours(pod):
            return self.drop(pod.uid)
        after = (node, requested(pod.spec))
        if before == after:
            return False
        self.drop(pod.uid)
        self._pods[pod.uid] = after
        self._nodes.setdefault(node, Use()).add(after[1])
        self._changed(node)
        return True

    def drop(self, uid: str) -> bool:
        """Forget a pod that is gone; return whether it took anything."""
        known = self._pods.pop(uid, None)
        if known is None:
            return False
        node, use = known
        self._nodes[node].add(use, -1)
        if not self._nodes[node].pods:
            del self._nodes[node]
        self._changed(node)
        return True

    def of(self, node: str) -> Use:
        """Return what pods of others take of a node."""
        return self._nodes.get(node) or Use()
