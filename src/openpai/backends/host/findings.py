"""What the checks of a node found, over time: a fault counts at once, and is over after some passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import structlog

from openpai.ports.backend import CheckResult, NodeCheck

PASSES: Final = 3
"""How often in a row what failed must pass before it takes tasks again."""
log: Final = structlog.get_logger(__name__)
_WORST: Final[tuple[CheckResult, ...]] = ("passed", "unknown", "warning", "failed")


class Finding(NamedTuple):
    """What one look found, about the node or one of its devices."""

    check: str
    result: CheckResult = "passed"
    message: str = ""
    device: int | None = None


@dataclass(slots=True)
class _Known:
    finding: Finding
    since_ms: int
    checked_ms: int
    passed: int = 0


class Findings:
    """The newest result of each check."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int | None], _Known] = {}

    def learn(self, found: Iterable[Finding], now_ms: int) -> None:
        """Take in what was found now."""
        for finding in found:
            known = self._known.get((finding.check, finding.device))
            if known is None:
                self._known[finding.check, finding.device] = _Known(finding, now_ms, now_ms)
                _say(finding)
                continue
            known.checked_ms = now_ms
            if known.finding.result == "failed" != finding.result:
                known.passed += 1
                if known.passed < PASSES:
                    continue
            known.passed = 0
            if known.finding.result != finding.result:
                known.since_ms = now_ms
            if known.finding != finding:
                known.finding = finding
                _say(finding)

    def forget(self, check: str) -> None:
        """Forget a check that is no longer made."""
        self._known = {key: known for key, known in self._known.items() if key[0] != check}

    @property
    def faults(self) -> list[str]:
        """Return why the node takes no tasks."""
        return [f"{each.check}: {each.message}" for each in self._failed() if each.device is None]

    @property
    def bad_devices(self) -> Mapping[int, str]:
        """Return the devices that take no tasks, each with the first reason."""
        bad: dict[int, str] = {}
        for each in self._failed():
            if each.device is not None:
                bad.setdefault(each.device, each.message)
        return bad

    def checks(self) -> tuple[NodeCheck, ...]:
        """Return each check once, over all devices, in the order in which they were first made."""
        names = dict.fromkeys(check for check, _ in self._known)
        return tuple(_summed(name, [known for key, known in self._known.items() if key[0] == name]) for name in names)

    def _failed(self) -> Iterator[Finding]:
        return (known.finding for known in self._known.values() if known.finding.result == "failed")


def _summed(name: str, parts: list[_Known]) -> NodeCheck:
    worst = max((part.finding.result for part in parts), key=_WORST.index)
    counted = [part for part in parts if part.finding.result == worst]
    messages = (
        each.message if each.device is None or not each.message else f"GPU {each.device}: {each.message}"
        for each in (part.finding for part in counted)
    )
    return NodeCheck(
        name,
        worst,
        "; ".join(dict.fromkeys(filter(None, messages))),
        since_ms=max(part.since_ms for part in parts) if worst == "passed" else min(part.since_ms for part in counted),
        checked_ms=max(part.checked_ms for part in parts),
    )


def _say(finding: Finding) -> None:
    if finding.result == "failed":
        log.warning("a check of the node failed", check=finding.check, device=finding.device, because=finding.message)
    elif finding.result == "warning":
        log.warning("a check of the node warns", check=finding.check, device=finding.device, because=finding.message)
