"""The parts of Kubernetes' pods and nodes that the extender looks at."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.extender.annotations import BIND_INFO, ENABLE, SPEC
from openpai.kube.objects.nodes import Node
from openpai.kube.objects.pods import Pod as KubePod
from openpai.kube.quantities import quantity


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that is live and HiveD's."""

    uid: str
    namespace: str
    name: str
    node: str = ""
    """Where it is bound; empty while it is not."""
    spec: str = ""
    bind_info: str = ""
    since_ms: int | None = None
    is_leaving: bool = False
    priority: int = 0
    """Kubernetes' own, from its PriorityClass."""
    may_preempt: bool = True

    @property
    def key(self) -> str:
        """Return its namespace and name, as in messages."""
        return f"{self.namespace}/{self.name}"


def pod_of(pod: KubePod) -> Pod | None:
    """Return what the extender needs of a pod; None if it is over, or none of its containers asks for HiveD."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    if pod.has_ended or not any(_asks((container.resources.limits or {}).get(ENABLE)) for container in containers):
        return None
    started = pod.status.start_time
    return Pod(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        node=pod.spec.node_name,
        spec=pod.metadata.annotation(SPEC),
        bind_info=pod.metadata.annotation(BIND_INFO),
        since_ms=None if started is None else int(started.timestamp() * 1000),
        is_leaving=pod.metadata.deletion_timestamp is not None,
        priority=pod.spec.priority or 0,
        may_preempt=pod.spec.preemption_policy != "Never",
    )


def _asks(limit: str | None) -> bool:
    return limit is not None and quantity(limit) > 0


def is_healthy(node: Node) -> bool:
    """Return whether a node is Ready and not cordoned."""
    return node.is_ready and not node.spec.unschedulable
