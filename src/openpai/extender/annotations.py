"""HiveD's annotations of pods: what a pod asks for, and where it was placed.

Both are YAML. What we write is JSON, which is YAML too and half as long: the API server limits the annotations of a
pod to 256 KiB, and each pod carries the placement of its whole affinity group.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from openpai.protocol.errors import Refused
from openpai.scheduler.cells.model import OPPORTUNISTIC, PRIORITY_MAX, GangRequest
from openpai.scheduler.cells.restoring import NO_GUARANTEE
from openpai.scheduler.config.model import is_too_deep
from openpai.scheduler.model import Spot

GROUP: Final = "hivedscheduler.microsoft.com"
ENABLE: Final = f"{GROUP}/pod-scheduling-enable"
"""The resource whose limit makes a pod HiveD's."""
SPEC: Final = f"{GROUP}/pod-scheduling-spec"
BIND_INFO: Final = f"{GROUP}/pod-bind-info"
ISOLATION: Final = f"{GROUP}/pod-leaf-cell-isolation"
OLD_ISOLATION: Final = f"{GROUP}/pod-gpu-isolation"
PODS_MAX: Final = 10_000
BIND_INFO_MAX: Final = 240 * 1024
"""The longest placement that fits into a pod's annotations beside its other ones."""

_OLD_KEYS: Final = {
    "leafCellType": "gpuType",
    "leafCellNumber": "gpuNumber",
    "leafCellIsolation": "gpuIsolation",
    "physicalLeafCellIndices": "physicalGpuIndices",
}
_TRUE: Final = ("true", "yes", "on")
_Loader: Final[Any] = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader


@dataclass(frozen=True, slots=True)
class PodSpec:
    """What one pod asks for, and its affinity group."""

    virtual_cluster: str
    leaves: int
    """How many leaf cells the pod itself needs."""
    group: str
    members: tuple[tuple[int, int], ...]
    """How many pods its affinity group has, and how many leaf cells each, the smallest first."""
    priority: int = 0
    leaf_type: str | None = None
    pinned_cell: str | None = None
    is_lazily_preemptible: bool = False
    ignores_suggested_nodes: bool = True

    def request(self, suggested: Sequence[str]) -> GangRequest:
        """Return the request for its whole affinity group."""
        return GangRequest(
            self.group,
            self.virtual_cluster,
            self.members,
            self.priority,
            None if self.pinned_cell else self.leaf_type,
            self.pinned_cell,
            self.is_lazily_preemptible,
            nodes=None if self.ignores_suggested_nodes else frozenset(suggested),
        )


@dataclass(frozen=True, slots=True)
class BindInfo:
    """Where a pod was placed, and the other pods of its affinity group."""

    node: str
    leaves: tuple[int, ...]
    chain: str
    placements: tuple[tuple[Spot, str], ...]
    """The place of each pod of the group, those with the fewest leaf cells first, and the type of the promised cell of
    each, or NO_GUARANTEE."""

    def members(self) -> tuple[tuple[int, int], ...]:
        """Return how many pods of each size the group has, as in a request."""
        return merged((1, len(spot.devices)) for spot, _ in self.placements)


def merged(members: Any) -> tuple[tuple[int, int], ...]:
    """Return members of a group with those of the same size added up, the smallest first."""
    counts: dict[int, int] = {}
    for count, leaves in members:
        counts[leaves] = counts.get(leaves, 0) + count
    return tuple((counts[leaves], leaves) for leaves in sorted(counts))


def read_spec(text: str, pod: str) -> PodSpec:
    """Return what annotation `pod-scheduling-spec` of the pod `namespace/name` asks for; refuse what HiveD refuses."""
    keys = _parse(text, SPEC)
    leaves = _number(keys, "leafCellNumber", 0)
    group = _value(keys, "affinityGroup")
    if group is None:
        name, members = pod, [(1, leaves)]
    else:
        if not isinstance(group, Mapping):
            raise _fault(SPEC, "affinityGroup is not a mapping; give it a name and members")
        name, members = _text(group, "name"), _members(group)
    found = PodSpec(
        virtual_cluster=_text(keys, "virtualCluster"),
        leaves=leaves,
        group=name,
        members=merged(members),
        priority=_number(keys, "priority", 0),
        leaf_type=_text(keys, "leafCellType") or None,
        pinned_cell=_text(keys, "pinnedCellId") or None,
        is_lazily_preemptible=_flag(keys, "lazyPreemptionEnable", default=False),
        ignores_suggested_nodes=_flag(keys, "ignoreK8sSuggestedNodes", default=True),
    )
    _check(found, members)
    return found


def _members(group: Mapping[str, Any]) -> list[tuple[int, int]]:
    listed = _value(group, "members")
    if not isinstance(listed, list) or not all(isinstance(member, Mapping) for member in listed):
        raise _fault(SPEC, "affinityGroup.members is no list; give podNumber and leafCellNumber of each size of pod")
    return [(_number(member, "podNumber", 0), _number(member, "leafCellNumber", 0)) for member in listed]


def _check(spec: PodSpec, members: Sequence[tuple[int, int]]) -> None:
    if not spec.virtual_cluster:
        raise _fault(SPEC, "virtualCluster is empty; name the virtual cluster of the pod")
    if not OPPORTUNISTIC <= spec.priority <= PRIORITY_MAX:
        raise _fault(SPEC, f"priority {spec.priority} is not between {OPPORTUNISTIC} and {PRIORITY_MAX}")
    if spec.leaves <= 0:
        raise _fault(SPEC, "leafCellNumber is not positive; give the number of leaf cells of the pod")
    if not spec.group:
        raise _fault(SPEC, "affinityGroup.name is empty; name the group, the same in each of its pods")
    if any(count <= 0 or leaves <= 0 for count, leaves in members):
        raise _fault(SPEC, "affinityGroup.members has a podNumber or leafCellNumber that is not positive")
    if sum(count for count, _ in members) > PODS_MAX:
        raise _fault(SPEC, f"affinityGroup.members has more than {PODS_MAX} pods; divide them into groups")
    if all(leaves != spec.leaves for _, leaves in members):
        raise _fault(SPEC, f"affinityGroup.members has no pods of {spec.leaves} leaf cells, as this pod is")


def read_bind_info(text: str) -> BindInfo:
    """Return the placement in annotation `pod-bind-info`; refuse one that is not complete."""
    keys = _parse(text, BIND_INFO)
    placements = []
    for group in _list(keys, "affinityGroupBindInfo"):
        for placement in _list(group, "podPlacements"):
            types = [str(name) for name in _list(placement, "preassignedCellTypes")]
            spot = Spot(_text(placement, "physicalNode"), _indices(placement, "physicalLeafCellIndices"))
            if not spot.node or not spot.devices:
                raise _fault(BIND_INFO, "a placement has no node or no leaf cells")
            placements.append((spot, types[0] if types else NO_GUARANTEE))
    placements.sort(key=lambda placement: len(placement[0].devices))
    found = BindInfo(_text(keys, "node"), _indices(keys, "leafCellIsolation"), _text(keys, "cellChain"), (*placements,))
    if all((spot.node, spot.devices) != (found.node, found.leaves) for spot, _ in placements):
        raise _fault(BIND_INFO, "the pod's own place is not among those of its affinity group")
    return found


def read_own_place(text: str) -> Spot:
    """Return the pod's own place; quick also where HiveD wrote the places of a large group."""
    head = text if text.startswith("{") else text.partition("\naffinityGroupBindInfo")[0]
    keys = _parse(head, BIND_INFO)
    return Spot(_text(keys, "node"), _indices(keys, "leafCellIsolation"))


def write_group(placements: Sequence[tuple[Spot, str]]) -> str:
    """Return the part of `pod-bind-info` that all pods of an affinity group share."""
    by_size: dict[int, list[dict[str, Any]]] = {}
    for spot, cell_type in placements:
        entry = {
            "physicalNode": spot.node,
            "physicalLeafCellIndices": spot.devices,
            "preassignedCellTypes": [cell_type] * len(spot.devices),
        }
        by_size.setdefault(len(spot.devices), []).append(entry)
    return json.dumps([{"podPlacements": entries} for entries in by_size.values()], separators=(",", ":"))


def write_annotations(spot: Spot, chain: str, group: str) -> dict[str, str]:
    """Return the annotations of a pod that is bound; `group` is the text of `write_group`."""
    own = json.dumps({"node": spot.node, "leafCellIsolation": spot.devices, "cellChain": chain}, separators=(",", ":"))
    isolation = ",".join(map(str, spot.devices))
    return {
        ISOLATION: isolation,
        OLD_ISOLATION: isolation,
        BIND_INFO: f'{own[:-1]},"affinityGroupBindInfo":{group}}}',
    }


def _parse(text: str, annotation: str) -> Mapping[str, Any]:
    if not text.strip():
        raise _fault(annotation, "it is missing or empty")
    found = _loaded(text, annotation)
    if not isinstance(found, Mapping):
        raise _fault(annotation, "it is not a mapping")
    return found


def _loaded(text: str, annotation: str) -> Any:
    """Return the value of a text, with numbers as text."""
    with contextlib.suppress(ValueError, RecursionError):
        if text.startswith("{"):
            return json.loads(text, parse_int=str, parse_float=str)  # many times faster than YAML
    if is_too_deep(text):
        raise _fault(annotation, "it is not YAML: nested too deeply")
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506  it builds plain text only
    except (yaml.YAMLError, RecursionError) as error:
        raise _fault(annotation, f"it is not YAML: {getattr(error, 'problem', None) or 'nested too deeply'}") from error


def _fault(annotation: str, message: str) -> Refused:
    return Refused("InvalidParametersError", f"annotation {annotation}: {message}", "correct the pod's annotation")


def _value(keys: Mapping[str, Any], name: str) -> Any:
    value = keys.get(name, keys.get(_OLD_KEYS.get(name, name)))
    return None if value in ("", "null", "~", "Null", "NULL") else value


def _text(keys: Mapping[str, Any], name: str) -> str:
    value = _value(keys, name)
    if value is not None and not isinstance(value, str):
        raise _fault(SPEC, f"{name} is not a word")
    return value or ""


def _number(keys: Mapping[str, Any], name: str, default: int) -> int:
    value = _value(keys, name)
    if value is None:
        return default
    try:
        return int(value) if len(value) < 12 else int("")
    except (TypeError, ValueError):
        raise _fault(SPEC, f"{name} is not a whole number: {str(value)[:40]!r}") from None


def _flag(keys: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = _value(keys, name)
    return default if value is None else str(value).lower() in _TRUE


def _list(keys: Any, name: str) -> Sequence[Any]:
    value = _value(keys, name) if isinstance(keys, Mapping) else None
    if not isinstance(value, list):
        raise _fault(BIND_INFO, f"{name} is missing or not a list")
    return value


def _indices(keys: Mapping[str, Any], name: str) -> tuple[int, ...]:
    try:
        return tuple(int(index) for index in _list(keys, name))
    except (TypeError, ValueError):
        raise _fault(BIND_INFO, f"{name} holds something else than numbers of leaf cells") from None
