"""Short ways to say what is asked of a scheduler, for the tests of its queue."""

from __future__ import annotations

from typing import Any

from openpai.scheduler.model import Ask, Gang, Place
from openpai.scheduler.queue.scheduler import HivedScheduler

HOUR_MS = 3_600_000
LONG_MS = 2 * HOUR_MS


def gang(name: str, *gpus: int, **more: Any) -> Gang:
    return Gang(name, tuple(Ask(1, 1024, number) for number in gpus), **{"virtual_cluster": "a", **more})


def placed(scheduler: HivedScheduler, now_ms: int = 0) -> list[str]:
    names = []
    for decision in scheduler.decide(now_ms, 100):
        assert isinstance(decision, Place), decision
        scheduler.commit(decision.gang)
        names.append(decision.gang)
    return names
