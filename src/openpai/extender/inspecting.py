"""The answers of HiveD's inspect API."""

from __future__ import annotations

from typing import Any

from openpai.extender.scheduling import Extender
from openpai.protocol.errors import Refused
from openpai.scheduler.cells.inspection import affinity_group


def group_document(extender: Extender, name: str) -> dict[str, Any]:
    """Return an affinity group that has cells or has reserved them; refuse a name that no group has."""
    record = extender.core.cluster.gangs.get(name)
    if record is None:
        message = f"there is no affinity group {name} that has cells or has reserved them"
        raise Refused("InvalidParametersError", message, "GET /v1/inspect/affinitygroups/ lists those that do")
    with extender.core.cluster.committed():
        found: dict[str, Any] = dict(affinity_group(extender.core.cluster, record))
    group = extender.groups.get(name)
    if group is not None and group.pods:
        found["status"]["allocatedPods"] = list(group.pods.values())
    if group is not None and group.preempting:
        found["status"]["preemptingPods"] = list(group.preempting)
    return found


def group_list(extender: Extender) -> dict[str, Any]:
    """Return all affinity groups by name; HiveD writes null where there are none."""
    names = sorted(extender.core.cluster.gangs)
    return {"items": [group_document(extender, name) for name in names] or None}
