"""The checks of a node that a cluster makes: the conditions of its kubelet, its devices and its clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from openpai.backends.kubernetes.node_health import PRESSURE, NodeRules
from openpai.kube.objects.nodes import Node, NodeCondition
from openpai.ports.backend import CheckResult, NodeCheck

_CLOCK_PROBLEM: Final = "NTPProblem"
"""The condition of the node problem detector about the service that sets the clock."""
DRIFT_S: Final = 10.0
"""From which difference to our clock on a node's clock is reported."""


def checks(node: Node, rules: NodeRules, problems: Mapping[int, str]) -> Iterator[NodeCheck]:
    """Yield the checks of a node; `problems` are those of its devices, by index."""
    for condition in node.status.conditions:
        if condition.type == "Ready":
            result: CheckResult = "passed" if condition.status == "True" else "failed"
            yield _of(condition, result, "kubelet")
        elif condition.type in PRESSURE | rules.bad_conditions:
            yield _of(condition, _result(condition, "failed"))
        elif condition.type == _CLOCK_PROBLEM:
            yield _of(condition, _result(condition, "warning"))
    if problems:
        yield NodeCheck("GPUs", "failed", "; ".join(f"GPU {at}: {why}" for at, why in sorted(problems.items())))


def with_drift(found: tuple[NodeCheck, ...], drift_s: float) -> tuple[NodeCheck, ...]:
    """Return the checks with one of the clock, which differs by so many seconds from ours."""
    way = "ahead of" if drift_s > 0 else "behind"
    return (*found, NodeCheck("clock", "warning", f"its clock is {abs(drift_s):.0f} s {way} that of this server"))


def _result(condition: NodeCondition, bad: CheckResult) -> CheckResult:
    return {"True": bad, "False": "passed"}.get(condition.status, "unknown")


def _of(condition: NodeCondition, result: CheckResult, name: str = "") -> NodeCheck:
    message = "" if result == "passed" else condition.message or condition.reason
    since, checked = _ms(condition.last_transition_time), _ms(condition.last_heartbeat_time)
    return NodeCheck(name or condition.type, result, message, since, checked)


def _ms(at: datetime | None) -> int | None:
    return None if at is None else int(at.timestamp() * 1000)
