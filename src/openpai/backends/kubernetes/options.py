"""The settings of the backend, in one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from openpai.backends.kubernetes.node_health import NodeRules
from openpai.backends.kubernetes.nodes import DeviceRules
from openpai.backends.kubernetes.pods import PodOptions

GIVES_UP_AFTER_S: Final = 25.0


@dataclass(frozen=True, slots=True)
class KubernetesOptions:
    """How the backend uses a cluster."""

    namespace: str = ""
    """The namespace of the tasks; empty: that of the kubeconfig's context, or of the platform's own pod."""
    pods: PodOptions = field(default_factory=PodOptions)
    nodes: NodeRules = field(default_factory=NodeRules)
    devices: DeviceRules = field(default_factory=DeviceRules)
    has_queues: bool = False
    """Whether queues of Kueue admit jobs."""
    gives_up_after_s: float = GIVES_UP_AFTER_S
    """After this silence of a node, its tasks count as lost. 0: only once it is certain that they do not run."""
