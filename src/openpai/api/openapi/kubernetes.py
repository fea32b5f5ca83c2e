"""Lists in the shape of Kubernetes."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import kubernetes

OPERATIONS: Final[dict[str, Operation]] = {
    "GET /api/v2/kubernetes/nodes": Operation(
        "listKubernetesNodes", "List nodes as Kubernetes would", kubernetes.KubernetesList
    ),
    "GET /api/v2/kubernetes/pods": Operation(
        "listKubernetesPods", "List tasks as Kubernetes would", kubernetes.KubernetesList
    ),
}
