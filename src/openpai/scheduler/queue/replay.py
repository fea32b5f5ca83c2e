"""Repeats a decision later and elsewhere: loads a scheduler from a snapshot and decides again about one gang.

The decision and its reasons are returned as plain data; no running scheduler is affected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from openpai.protocol.errors import Refused
from openpai.scheduler.model import Decision, Place
from openpai.scheduler.queue.scheduler import HivedScheduler
from openpai.scheduler.queue.snapshot import FORMAT, load

DECISIONS_MAX: Final = 100_000


def resume(data: Mapping[str, Any]) -> HivedScheduler:
    """Return a scheduler with the state of a snapshot; Refused if the data is no snapshot."""
    if data.get("format") != FORMAT or "core" not in data:
        message = f"this is not a scheduler snapshot of format {FORMAT}"
        raise Refused("InvalidParametersError", message, "take one with `pai scheduler snapshot` from this version")
    return HivedScheduler.over(load(data))


def answer(data: Mapping[str, Any], gang_id: str, now_ms: int | None = None) -> dict[str, Any]:
    """Return the next decision about one waiting gang, with the reasons, as plain data.

    Every gang is looked at again: whoever asks may have changed the snapshot to see what that would do.
    """
    scheduler = resume({key: value for key, value in data.items() if key != "memory"})
    at_ms = data["now_ms"] if now_ms is None else now_ms
    before = scheduler.why(gang_id, at_ms)
    if before is None:
        message = f"{gang_id!r} does not wait in this snapshot"
        raise Refused("NoJobError", message, "name what waits; `waiting` in the snapshot lists it")
    decisions = scheduler.decide(at_ms, DECISIONS_MAX)
    own = next((decision for decision in decisions if decision.gang == gang_id), None)
    why = scheduler.why(gang_id, at_ms)
    return {
        "gang": gang_id,
        "now_ms": at_ms,
        "decision": "wait" if own is None else _plain(scheduler, own),
        "decided_before_it": [decision.gang for decision in _before(decisions, own)],
        "before": asdict(before),
        "why": None if why is None else asdict(why),
    }


def _plain(scheduler: HivedScheduler, decision: Decision) -> dict[str, Any]:
    if isinstance(decision, Place):
        spots = [
            {"node": spot.node, "devices": list(spot.devices), "seat": spot.placement_hint} for spot in decision.spots
        ]
        return {"place": spots}
    held = scheduler.state.running.gangs
    jobs = [held[victim].gang.job if victim in held else "" for victim in decision.victims]
    return {"preempt": list(decision.victims), "jobs": jobs, "message": list(decision.whys)}


def _before(decisions: tuple[Decision, ...], own: Decision | None) -> tuple[Decision, ...]:
    return decisions if own is None else decisions[: decisions.index(own)]
