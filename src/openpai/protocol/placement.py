"""The scheduling settings of a job: priority, hardware for each task role, topology, time limit, privacy.

These settings are in `extras`, mostly under `hivedScheduler`; here they become plain values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from openpai.protocol.job import JobSpec
from openpai.protocol.references import mapping

PRIORITY_OF: Final[dict[str, int]] = {"crit": 120, "prod": 100, "test": 10, "oppo": -1}
CLASS_DEFAULT: Final = "test"
GRACE_S: Final = 30.0
"""How long a task may run on after SIGTERM, if its job does not say."""
_SECOND_MS: Final = 1000
MINUTES_MIN: Final = 0.1
"""A job that was quiet for less than this does not count as one that hangs."""


@dataclass(frozen=True, slots=True)
class RolePlacement:
    """The hardware of one task role, and its affinity group."""

    sku_type: str | None = None
    pinned_cell: str | None = None
    group: str = ""
    cell_type: str | None = None
    """Each of its tasks stays inside one cell of this type."""
    group_cell_type: str | None = None
    """All tasks of its group stay inside one cell of this type."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The settings of a whole job."""

    roles: Mapping[str, RolePlacement] = field(default_factory=dict)
    """Only roles with settings."""
    is_lazily_preemptible: bool = False
    cell_type: str | None = None
    """The whole job stays inside one cell of this type."""
    is_cell_required: bool = False
    is_interruptible: bool | None = None
    """Whether it may start on free devices of others, and be preempted there; None if the job does not say."""
    checkpoint_every_ms: int | None = None
    """How often it saves its work, if it says so."""


ANYWHERE: Final = Placement()
NO_PLACEMENT: Final = RolePlacement()


def placement_of(spec: JobSpec) -> Placement:
    """Return the scheduling settings of a job."""
    hived = mapping(spec.extras.get("hivedScheduler"))
    if not hived:
        return ANYWHERE
    topology = mapping(hived.get("topology"))
    groups = mapping(hived.get("affinityGroups"))
    return Placement(
        {
            name: _role_placement(mapping(placement), groups)
            for name, placement in mapping(hived.get("taskRoles")).items()
        },
        hived.get("lazyPreemptionEnable") is True,
        topology.get("cellType") or None,
        topology.get("required") is True,
        found if isinstance(found := hived.get("interruptible"), bool) else None,
        _minutes_ms(hived.get("checkpointMinutes")),
    )


def _role_placement(placement: Mapping[str, Any], groups: Mapping[str, Any]) -> RolePlacement:
    group = placement.get("affinityGroupName") or ""
    return RolePlacement(
        placement.get("skuType") or None,
        placement.get("pinnedCellId") or None,
        group,
        placement.get("cellType") or None,
        mapping(groups.get(group)).get("cellType") or None,
    )


def time_limit_ms(extras: Mapping[str, Any]) -> int | None:
    """Return how long an attempt may run, None for no limit."""
    return _minutes_ms(extras.get("timeLimitMinutes"))


def _minutes_ms(minutes: object) -> int | None:
    if not isinstance(minutes, int | float) or isinstance(minutes, bool):
        return None
    # A fraction of a minute has only a few digits in a file.
    return max(1, round(minutes * 60)) * _SECOND_MS


@dataclass(frozen=True, slots=True)
class HangDetection:
    """When a job counts as one that hangs, and how often it is then restarted."""

    after_ms: int
    restarts: int = 0


def hang_detection(extras: Mapping[str, Any], default_minutes: float = 0) -> HangDetection | None:
    """Return when a job counts as one that hangs; None if it is not watched.

    `default_minutes` applies to jobs that do not say; 0 for none.
    """
    value = extras.get("hangDetection")
    minutes = value.get("minutes") if isinstance(value, Mapping) else default_minutes
    if not isinstance(minutes, int | float) or isinstance(minutes, bool) or not minutes > 0:
        return None
    restarts = value.get("restarts") if isinstance(value, Mapping) else 0
    return HangDetection(int(max(minutes, MINUTES_MIN) * 60_000), restarts if isinstance(restarts, int) else 0)


def grace_of(extras: Mapping[str, Any]) -> float:
    """Return how many seconds the tasks of a job have between SIGTERM and SIGKILL."""
    value = extras.get("gracePeriodSeconds")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else GRACE_S


def has_unique_tasks(extras: Mapping[str, Any]) -> bool:
    """Return whether a task may start again elsewhere only once it is certain that it does not run any more."""
    return extras.get("uniqueTasks") is True


def asks_for_notice(extras: Mapping[str, Any], change: str) -> bool:
    """Return whether a job file asks to notify its owner of a change of state, such as `failed`."""
    wanted = extras.get("jobStatusChangeNotification")
    return isinstance(wanted, Mapping) and wanted.get(change) is True


def is_private(extras: Mapping[str, Any]) -> bool:
    """Return whether only the owner and managers of a job may read its file."""
    return extras.get("private") is True


def asked_class(extras: Mapping[str, Any]) -> str | None:
    """Return the priority class in a job's extras, None if it is missing or unknown."""
    hived = extras.get("hivedScheduler")
    value = hived.get("jobPriorityClass") if isinstance(hived, Mapping) else None
    return value if isinstance(value, str) and value in PRIORITY_OF else None


def priority_class(extras: Mapping[str, Any]) -> str:
    """Return the priority class of a job: the one in its extras, or `test`."""
    return asked_class(extras) or CLASS_DEFAULT


def priority(extras: Mapping[str, Any]) -> int:
    """Return the scheduler's number for the priority class a job's extras ask for: crit is highest, oppo lowest."""
    return PRIORITY_OF[priority_class(extras)]
