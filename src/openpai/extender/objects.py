"""The parts of Kubernetes' pods and nodes that the extender looks at."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from openpai.extender.annotations import BIND_INFO, ENABLE, SPEC

_POSITIVE: Final = re.compile(r"\+?[0-9.]*[1-9]")


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

    @property
    def key(self) -> str:
        """Return its namespace and name, as in messages."""
        return f"{self.namespace}/{self.name}"


def is_ours(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod is live and asks for HiveD, by a limit of one of its containers."""
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return False
    spec = pod.get("spec", {})
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    limits = [(container.get("resources") or {}).get("limits") or {} for container in containers]
    return any(_POSITIVE.match(str(limit.get(ENABLE, ""))) for limit in limits)


def pod_of(pod: Mapping[str, Any]) -> Pod:
    """Return what the extender needs of a pod."""
    metadata = pod["metadata"]
    annotations = metadata.get("annotations") or {}
    started = pod.get("status", {}).get("startTime")
    return Pod(
        uid=metadata["uid"],
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        node=pod.get("spec", {}).get("nodeName") or "",
        spec=annotations.get(SPEC) or "",
        bind_info=annotations.get(BIND_INFO) or "",
        since_ms=int(datetime.fromisoformat(started).timestamp() * 1000) if started else None,
        is_leaving="deletionTimestamp" in metadata,
    )


def is_healthy(node: Mapping[str, Any]) -> bool:
    """Return whether a node is Ready and not cordoned."""
    if node.get("spec", {}).get("unschedulable"):
        return False
    conditions = node.get("status", {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
