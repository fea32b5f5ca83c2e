"""Failures that nodes are blamed for: the job avoids the node, and a node that fails many users is drained.

They are kept in one document of the cluster's settings, which the leader writes. A failure of unknown cause is
remembered until its job ends, by this leader alone: if the job succeeds on other nodes, the node is blamed, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

import structlog

from openpai.lifecycle.facts import Fact, RootFound, TaskExited
from openpai.lifecycle.lemons import (
    KEPT_MS,
    MANY,
    THRESHOLD,
    Lemon,
    Population,
    Strike,
    counted,
    excluded_nodes,
    find_lemon,
    may_drain,
    score,
)
from openpai.lifecycle.model import Diagnosis, ExitReason, Outcome, Verdict
from openpai.ports.cluster_settings import LEMONS, NodeNote, Setting, SettingsStore
from openpai.ports.store import JobRecord
from openpai.ports.usage import AuditEntry, UsageStore

BY: Final = "platform"
STRIKES_MAX: Final = 2000
SUSPECTS_MAX: Final = 1000
LATELY_MS: Final = 28 * 86_400_000
"""Users who ran a job within this time are counted."""
_AUDITED: Final = "node.change"
_UNKNOWN: Final = ("", "unknown")
log: Final = structlog.get_logger(__name__)


_FIELDS: Final = frozenset(each.name for each in fields(Strike))


def _read(row: Mapping[str, Any]) -> Strike:
    """Return a failure from the store, which a later version may have written with more fields."""
    known = {key: value for key, value in row.items() if key in _FIELDS}
    return Strike(**{**known, "devices": tuple(row["devices"])})


def _written(strike: Strike) -> dict[str, Any]:
    """Return a failure for the store; without a rule as version 0.2.0 can read it, to which one may go back."""
    row = asdict(strike)
    return row if strike.rule else {key: value for key, value in row.items() if key != "rule"}


@dataclass(slots=True)
class Lemons:
    """The failures that nodes are blamed for, as the leader knows them."""

    strikes: list[Strike] = field(default_factory=list)
    suspects: dict[str, Strike] = field(default_factory=dict)
    """By job, the last failure of unknown cause of one that may yet succeed."""
    drained: set[str] = field(default_factory=set)
    """The nodes that were drained for their score."""
    is_drained_known: bool = True
    """False after a start over what an earlier version stored, which kept no such names."""
    threshold: float = THRESHOLD
    """The score at which a node is drained; 0: never."""
    population: Population = MANY
    is_changed: bool = False
    """Whether some are not saved."""
    must_judge: bool = True
    """Whether nodes may have reached the threshold: a server that stopped may have saved failures and judged none."""

    def learn(self, setting: Setting | None) -> None:
        """Take over what the store has, unless something newer is not saved yet."""
        if not self.is_changed and setting is not None:
            rows = setting.body.get("strikes", ())
            self.strikes = [_read(row) for row in rows]
            self.drained = set(setting.body.get("drained", ()))
            self.is_drained_known = "drained" in setting.body

    def body(self) -> dict[str, Any]:
        """Return the document that the store keeps."""
        return {"strikes": [_written(each) for each in self.strikes], "drained": sorted(self.drained)}

    def set_threshold(self, threshold: float) -> None:
        """Change the score at which a node is drained; 0 switches that off."""
        self.must_judge |= threshold != self.threshold
        self.threshold = threshold

    def excluded(self, job: str, now_ms: int, nodes: int) -> tuple[str, ...]:
        """Return the nodes that a job avoids."""
        if not self.strikes:
            return ()
        return tuple(sorted(excluded_nodes(self.strikes, job, now_ms, nodes)))

    def add(self, record: JobRecord, facts: Sequence[Fact], now_ms: int) -> None:
        """Add the failures of a job that nodes are to blame for."""
        for strike in _strikes(record, facts, now_ms):
            if strike.is_sure:
                self.keep(strike, now_ms)
            elif len(self.suspects) < SUSPECTS_MAX or strike.job in self.suspects:
                self.suspects[strike.job] = strike

    def settle(self, record: JobRecord, outcome: Outcome | None, now_ms: int) -> None:
        """Blame a node for a failure of unknown cause, if the job that has ended succeeded on other nodes."""
        suspect = self.suspects.pop(record.job.id, None)
        if suspect is None:
            return
        nodes = {slot.node for slot in record.slots.values()}
        if nodes and suspect.node not in nodes and outcome is not None and outcome.verdict is Verdict.SUCCEEDED:
            self.keep(suspect, now_ms)

    def keep(self, strike: Strike, now_ms: int) -> None:
        """Add a failure, unless it is known."""
        known = ((each.node, each.job, each.at_ms) for each in self.strikes)
        if (strike.node, strike.job, strike.at_ms) in known:
            return
        recent = [each for each in self.strikes if now_ms - each.at_ms < KEPT_MS]
        self.strikes = [*recent[1 - STRIKES_MAX :], strike]
        self.is_changed = self.must_judge = True

    def forget(self, node: str) -> None:
        """Forget what a node is blamed for, because an administrator put it back into service."""
        kept = [each for each in self.strikes if each.node != node]
        self.is_changed |= len(kept) != len(self.strikes) or node in self.drained
        self.strikes = kept
        self.suspects = {job: each for job, each in self.suspects.items() if each.node != node}

    def score_of(self, node: str, now_ms: int) -> tuple[float, int]:
        """Return the score of a node, and how many users' failures it comes from."""
        own = [each for each in self.strikes if each.node == node]
        if not own:
            return 0.0, 0
        users = {each.user for each in counted(own, now_ms, self.population)}
        return score(own, now_ms, self.population), len(users)

    def found(self, notes: Iterable[NodeNote], now_ms: int) -> list[Lemon]:
        """Return the nodes and devices to take out of service now; the nodes are added to `drained`."""
        known = {note.name: note for note in notes}
        if not self.is_drained_known:
            self.drained = {note.name for note in known.values() if note.changed_by == BY}
            self.is_drained_known = self.is_changed = True
        self.drained = {name for name in self.drained if name in known and known[name].is_drained}
        lemons = []
        for node in sorted({each.node for each in self.strikes} & known.keys()):
            lemon = find_lemon(node, self.strikes, now_ms, self.threshold, self.population)
            if lemon is None or known[node].is_drained or lemon.device in known[node].bad_devices:
                continue
            if lemon.device is None:
                if not may_drain(len(self.drained), len(known)):
                    log.warning("a node fails many users, but too many are drained for that already", node=node)
                    continue
                self.drained.add(node)
                self.is_changed = True
            lemons.append(lemon)
        return lemons


async def save_lemons(
    lemons: Lemons, settings: SettingsStore, now_ms: int, epoch: int, usage: UsageStore | None = None
) -> bool:
    """Save new failures, and take lemons out of service; return whether nodes changed."""
    if not lemons.is_changed and not (lemons.must_judge and lemons.strikes):
        return False
    if usage is not None:
        lemons.population = await population_of(usage, now_ms)
    notes = await settings.node_notes()
    found = lemons.found(notes, now_ms)
    if lemons.is_changed:
        # Before the nodes: one that is in `drained` and is not drained yet does not count.
        await settings.set_setting(LEMONS, lemons.body(), by=BY, at_ms=now_ms, epoch=epoch)
        lemons.is_changed = False
    changed = tuple(_out_of_service(lemon, notes) for lemon in found)
    if changed:
        await settings.set_node_notes(changed, epoch)
    lemons.must_judge = False
    for lemon, note in zip(found, changed, strict=True):
        log.warning("a node or device that fails many users is out of service", node=note.name, reason=lemon.reason)
        if usage is not None:
            await usage.note(_entry(lemon, now_ms))
    return bool(changed)


async def population_of(usage: UsageStore, now_ms: int) -> Population:
    """Return how many users ran jobs lately, and in how many virtual clusters."""
    rows = [row for row in await usage.use(now_ms - LATELY_MS, now_ms) if row.user]
    return Population(len({row.user for row in rows}), len({row.virtual_cluster for row in rows}))


def _entry(lemon: Lemon, now_ms: int) -> AuditEntry:
    what: dict[str, Any] = {"drained": True} if lemon.device is None else {"badDevices": [lemon.device]}
    detail = {**what, "reason": _reason(lemon), "jobs": list(lemon.jobs)}
    return AuditEntry(now_ms, BY, _AUDITED, lemon.node, via="lemon score", detail=detail)


def _out_of_service(lemon: Lemon, notes: Iterable[NodeNote]) -> NodeNote:
    note = next(note for note in notes if note.name == lemon.node)
    reason = _reason(lemon)
    if lemon.device is None:
        return replace(note, is_drained=True, reason=reason, changed_by=BY)
    bad = note.bad_devices | {lemon.device}
    because = f"{note.bad_because}; GPU {lemon.device} is a {reason}" if note.bad_because else reason
    return replace(note, bad_devices=bad, bad_because=because, changed_by=BY)


def _reason(lemon: Lemon) -> str:
    return f"lemon: {lemon.reason}"


def _strikes(record: JobRecord, facts: Sequence[Fact], now_ms: int) -> Iterator[Strike]:
    if record.job.outcome is not None:
        return
    exits = [fact for fact in facts if isinstance(fact, TaskExited)]
    root = next((fact for fact in facts if isinstance(fact, RootFound)), None)
    # Where a root is known, the others followed from it.
    blamed = [(fact.key.task, fact.diagnosis) for fact in exits] if root is None else [(root.task, root.diagnosis)]
    own = {fact.key.task for fact in exits if fact.report.reason is ExitReason.EXITED}
    seen: set[str] = set()
    for task, diagnosis in blamed:
        slot = record.slots.get(task)
        is_sure = diagnosis.excludes_node
        if slot is None or slot.node in seen or not (is_sure or (task in own and _is_unknown(diagnosis))):
            continue
        seen.add(slot.node)
        where = record.virtual_cluster
        yield Strike(
            slot.node, record.user, record.job.id, diagnosis.cause, now_ms, slot.devices, where, is_sure=is_sure
        )


def _is_unknown(diagnosis: Diagnosis) -> bool:
    return diagnosis.code != 0 and diagnosis.domain in _UNKNOWN and diagnosis.type == "UNKNOWN_FAILURE"
