"""Failures that nodes are blamed for: the job avoids the node, and a node that fails many users is drained.

They are kept in one document of the cluster's settings, which the leader writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final

import structlog

from openpai.lifecycle.facts import Fact, RootFound, TaskExited
from openpai.lifecycle.lemons import (
    KEPT_MS,
    THRESHOLD,
    Lemon,
    Strike,
    counted,
    excluded_nodes,
    find_lemon,
    may_drain,
    score,
)
from openpai.ports.cluster_settings import LEMONS, NodeNote, Setting, SettingsStore
from openpai.ports.store import JobRecord

BY: Final = "platform"
MARK: Final = "lemon: "
"""How the reason of a drain for a node's score begins."""
STRIKES_MAX: Final = 2000
log: Final = structlog.get_logger(__name__)


@dataclass(slots=True)
class Lemons:
    """The failures that nodes are blamed for, as the leader knows them."""

    strikes: list[Strike] = field(default_factory=list)
    threshold: float = THRESHOLD
    """The score at which a node is drained; 0: never."""
    is_changed: bool = False
    """Whether some are not saved."""

    def learn(self, setting: Setting | None) -> None:
        """Take over what the store has, unless something newer is not saved yet."""
        if not self.is_changed:
            rows = setting.body.get("strikes", ()) if setting is not None else ()
            self.strikes = [Strike(**{**row, "devices": tuple(row["devices"])}) for row in rows]

    def excluded(self, job: str, now_ms: int, nodes: int) -> tuple[str, ...]:
        """Return the nodes that a job avoids."""
        if not self.strikes:
            return ()
        return tuple(sorted(excluded_nodes(self.strikes, job, now_ms, nodes)))

    def add(self, record: JobRecord, facts: Sequence[Fact], now_ms: int) -> None:
        """Add the failures of a job that nodes are to blame for."""
        for strike in _strikes(record, facts, now_ms):
            if any(
                (each.node, each.job, each.at_ms) == (strike.node, strike.job, strike.at_ms) for each in self.strikes
            ):
                continue
            recent = [each for each in self.strikes if now_ms - each.at_ms < KEPT_MS]
            self.strikes = [*recent[1 - STRIKES_MAX :], strike]
            self.is_changed = True

    def forget(self, node: str) -> None:
        """Forget what a node is blamed for, because an administrator put it back into service."""
        kept = [each for each in self.strikes if each.node != node]
        self.is_changed |= len(kept) != len(self.strikes)
        self.strikes = kept

    def score_of(self, node: str, now_ms: int) -> tuple[float, int]:
        """Return the score of a node, and how many users' failures it comes from."""
        own = [each for each in self.strikes if each.node == node]
        return (score(own, now_ms), len(counted(own, now_ms))) if own else (0.0, 0)

    def found(self, notes: Iterable[NodeNote], now_ms: int) -> list[Lemon]:
        """Return the nodes and devices to take out of service now."""
        known = {note.name: note for note in notes}
        drained = sum(note.is_drained and note.reason.startswith(MARK) for note in known.values())
        lemons = []
        for node in sorted({each.node for each in self.strikes} & known.keys()):
            lemon = find_lemon(node, self.strikes, now_ms, self.threshold)
            if lemon is None or known[node].is_drained or lemon.device in known[node].bad_devices:
                continue
            if lemon.device is None:
                if not may_drain(drained, len(known)):
                    log.warning("a node fails many users, but too many are drained for that already", node=node)
                    continue
                drained += 1
            lemons.append(lemon)
        return lemons


async def save_lemons(lemons: Lemons, settings: SettingsStore, now_ms: int, epoch: int) -> bool:
    """Save new failures, and take lemons out of service; return whether nodes changed."""
    if not lemons.is_changed:
        return False
    body = {"strikes": [asdict(each) for each in lemons.strikes]}
    await settings.set_setting(LEMONS, body, by=BY, at_ms=now_ms, epoch=epoch)
    lemons.is_changed = False
    notes = await settings.node_notes()
    changed = tuple(_out_of_service(lemon, notes) for lemon in lemons.found(notes, now_ms))
    if changed:
        await settings.set_node_notes(changed, epoch)
        for note in changed:
            log.warning("a node or device that fails many users is out of service", node=note.name, reason=note.reason)
    return bool(changed)


def _out_of_service(lemon: Lemon, notes: Iterable[NodeNote]) -> NodeNote:
    note = next(note for note in notes if note.name == lemon.node)
    reason = MARK + lemon.reason
    if lemon.device is None:
        return replace(note, is_drained=True, reason=reason, changed_by=BY)
    bad = note.bad_devices | {lemon.device}
    because = f"{note.bad_because}; GPU {lemon.device} is a {reason}" if note.bad_because else reason
    return replace(note, bad_devices=bad, bad_because=because, changed_by=BY)


def _strikes(record: JobRecord, facts: Sequence[Fact], now_ms: int) -> list[Strike]:
    root = next((fact for fact in facts if isinstance(fact, RootFound)), None)
    if root is not None:
        # The others followed from it.
        blamed = [(root.task, root.diagnosis)]
    else:
        blamed = [(fact.key.task, fact.diagnosis) for fact in facts if isinstance(fact, TaskExited)]
    found: dict[str, Strike] = {}
    for task, diagnosis in blamed:
        slot = record.slots.get(task)
        if diagnosis.excludes_node and slot is not None and record.job.outcome is None:
            strike = Strike(slot.node, record.user, record.job.id, diagnosis.cause, now_ms, slot.devices)
            found.setdefault(slot.node, strike)
    return list(found.values())
