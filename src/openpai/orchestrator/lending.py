"""The pass that counts for reports what users borrow and virtual clusters lend, and which jobs were moved.

The store knows which GPUs each task held, but not under which guarantee, which may change while it runs. So the leader
looks every few seconds and counts what it saw for the time until it looks again.
"""

from __future__ import annotations

from collections.abc import Iterator

from openpai.orchestrator.leader import Leader
from openpai.ports.usage import LentUse
from openpai.scheduler.interface import Lending


async def count_lending(leader: Leader) -> None:
    """Store the GPU time lent and borrowed since the last call, as it was then, and the moves of jobs since then."""
    if leader.usage is None:
        return
    now_ms, (since_ms, seen) = leader.steady.now_ms(), leader.lending
    # Before the write: what a failed write may have stored must not be counted twice.
    leader.lending, moved = (now_ms, leader.scheduler.lending()), tuple(leader.uncounted)
    leader.uncounted.clear()
    rows = (*(_rows(seen, now_ms - since_ms) if seen is not None else ()), *moved)
    if rows:
        await leader.usage.add_lent_use(rows, leader.clock.now_ms(), leader.epoch)


def _rows(seen: Lending, passed_ms: int) -> Iterator[LentUse]:
    for (name, user), amount in seen.borrowed.items():
        if amount.gpus:
            yield LentUse(name, user, borrowed_gpu_ms=amount.gpus * passed_ms)
    for name, to in seen.lent.items():
        gpus = sum(amount.gpus for amount in to.values())
        if gpus:
            yield LentUse(name, lent_gpu_ms=gpus * passed_ms)
