"""The endless loops of a server that leads. Each runs one bounded pass, again and again.

A loop carries no message: a nudge wakes it, and the pass finds its work itself. When the store or the backend
does not answer, the loop waits a moment and the next pass finds the same work.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter
from typing import Any, Final

import structlog

from openpai.orchestrator.admission import heed_admissions
from openpai.orchestrator.alert_outbox import EVERY_S as MESSAGES_EVERY_S
from openpai.orchestrator.alert_outbox import deliver, serve_subscribers
from openpai.orchestrator.alert_watch import EVERY_S as ALERTS_EVERY_S
from openpai.orchestrator.alert_watch import watch_alerts
from openpai.orchestrator.budgets import EVERY_S as BUDGETS_EVERY_S
from openpai.orchestrator.budgets import BudgetWatch, watch_budgets
from openpai.orchestrator.checkpoints import note_checkpoints
from openpai.orchestrator.fairness import save_accuracy
from openpai.orchestrator.hangs import HangWatch, watch_hangs
from openpai.orchestrator.idle_jobs import EVERY_S as IDLE_EVERY_S
from openpai.orchestrator.idle_jobs import IdleWatch, watch_idle
from openpai.orchestrator.kept_work import EVERY_S as KEPT_EVERY_S
from openpai.orchestrator.kept_work import KeptWatch, watch_kept_work
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.lending import count_lending
from openpai.orchestrator.node_sync import sync_nodes
from openpai.orchestrator.observing import GATHERED_S, waits_for_others
from openpai.orchestrator.reconciling import audit
from openpai.orchestrator.recording import take_inbox
from openpai.orchestrator.timers import retry_due
from openpai.orchestrator.turning import turn
from openpai.orchestrator.weekly_reports import EVERY_S as WEEKLY_EVERY_S
from openpai.orchestrator.weekly_reports import mail_reports
from openpai.ports.admission import AdmitsJobs
from openpai.ports.store import LEASE_MS, LeaseLost
from openpai.protocol.errors import Unavailable
from openpai.system.supervision import ENDINGS, note_failure
from openpai.system.tracing import span

AUDIT_EVERY_S: Final = 30.0
NODES_EVERY_S: Final = 10.0
MEASURE_EVERY_S: Final = 10.0
CHECKPOINTS_EVERY_S: Final = 15.0
HANGS_EVERY_S: Final = 5.0
INBOX_EVERY_S: Final = 1.0
RENEW_EVERY_S: Final = 2.0
FIRST_CLEAN_UP_S: Final = 60.0
PAUSE_AFTER_ERROR_S: Final = 1.0
LOOK_AGAIN_MIN_S: Final = 1.0
log: Final = structlog.get_logger(__name__)


class Resync(Exception):
    """The leader's copy of the active jobs is outdated: take over again from the store."""


async def lead(
    leader: Leader,
    holder: str,
    housekeeping: Callable[[], Awaitable[float | None]],
    decided: Callable[[], object] = lambda: None,
) -> None:
    """Run every loop until this server leads no longer; raises LeaseLost or Resync.

    `decided` is called after each turn, first after one that is made at once.
    """
    leader.nudges.work.set()
    loops = (
        _turns(leader, decided),
        _timers(leader),
        _news(leader),
        *([_admissions(leader, leader.admits)] if leader.admits is not None else ()),
        _every(leader, AUDIT_EVERY_S, lambda: audit(leader)),
        _every(leader, NODES_EVERY_S, lambda: sync_nodes(leader)),
        _every(leader, MEASURE_EVERY_S, lambda: count_lending(leader)),
        _every(leader, MEASURE_EVERY_S, lambda: save_accuracy(leader)),
        _every(leader, CHECKPOINTS_EVERY_S, lambda: note_checkpoints(leader)),
        _every(leader, HANGS_EVERY_S, partial(watch_hangs, leader, HangWatch())),
        _every(leader, IDLE_EVERY_S, partial(watch_idle, leader, IdleWatch())),
        _every(leader, KEPT_EVERY_S, partial(watch_kept_work, leader, KeptWatch())),
        _every(leader, ALERTS_EVERY_S, lambda: watch_alerts(leader)),
        _every(leader, MESSAGES_EVERY_S, lambda: serve_subscribers(leader)),
        _every(leader, MESSAGES_EVERY_S, lambda: deliver(leader)),
        _every(leader, BUDGETS_EVERY_S, partial(watch_budgets, leader, BudgetWatch())),
        _every(leader, WEEKLY_EVERY_S, lambda: mail_reports(leader)),
        _every(leader, INBOX_EVERY_S, lambda: take_inbox(leader)),
        _every(leader, RENEW_EVERY_S, lambda: _renew(leader, holder)),
        _clean_up(leader, housekeeping),
    )
    try:
        async with asyncio.TaskGroup() as group:
            for loop in loops:
                group.create_task(loop)
    except BaseExceptionGroup as errors:
        # Not `except*`: before Python 3.11.4 what is raised in there becomes a group again (gh-103590).
        ends, others = errors.split((LeaseLost, Resync))
        if ends is None or others is not None:
            raise
        raise _first(ends) from errors


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


async def _turns(leader: Leader, decided: Callable[[], object] = lambda: None) -> None:
    while True:
        # Cells are kept, and jobs are moved, when a job has waited for long, though nothing is reported then.
        again_ms = leader.scheduler.look_again_ms()
        left_s = None if again_ms is None else max(LOOK_AGAIN_MIN_S, (again_ms - leader.steady.now_ms()) / 1000)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                await leader.nudges.work.wait()
        began_s = perf_counter()
        with span("leader.turn"):
            has_more = await _guarded(leader, turn(leader))
        leader.turns, leader.turn_s = leader.turns + 1, leader.turn_s + perf_counter() - began_s
        decided()
        if has_more:
            leader.nudges.work.set()
            # Other tasks run between two rounds of a long queue.
            await asyncio.sleep(0)


async def _news(leader: Leader) -> None:
    loop = asyncio.get_running_loop()
    gathering: asyncio.TimerHandle | None = None
    while True:
        seen = await _guarded(leader, leader.backend.news())
        if seen is None:
            continue
        leader.active.heard.extend(seen)
        if not waits_for_others(leader, seen):
            leader.nudges.work.set()
        elif gathering is None or gathering.when() <= loop.time():
            gathering = loop.call_later(GATHERED_S, leader.nudges.work.set)


async def _admissions(leader: Leader, admits: AdmitsJobs) -> None:
    while True:
        await _guarded(leader, heed_admissions(leader, admits))


async def _timers(leader: Leader) -> None:
    while True:
        left_ms = await _guarded(leader, retry_due(leader))
        wait_s = None if left_ms is None else left_ms / 1000
        with contextlib.suppress(TimeoutError):
            # Not `wait_for`: before Python 3.12 it forgets a cancellation that comes together with the nudge.
            async with asyncio.timeout(wait_s):
                await leader.nudges.timers.wait()


async def _every(leader: Leader, every_s: float, one_pass: Callable[[], Awaitable[Any]]) -> None:
    while True:
        await asyncio.sleep(every_s)
        work = one_pass()
        with span(f"leader.{getattr(work, '__name__', 'pass')}"):
            await _guarded(leader, work)


async def _clean_up(leader: Leader, housekeeping: Callable[[], Awaitable[float | None]]) -> None:
    """Remove what is kept no longer: soon after this server began to lead, and whenever the pass asks for it."""
    wait_s: float | None = None
    while True:
        await asyncio.sleep(wait_s or FIRST_CLEAN_UP_S)
        with span("leader.clean_up"):
            wait_s = await _guarded(leader, housekeeping())


async def _renew(leader: Leader, holder: str) -> None:
    epoch = await leader.store.lease(holder, leader.clock.now_ms(), LEASE_MS, leader.url)
    if epoch != leader.epoch:
        raise LeaseLost(f"epoch {leader.epoch} is over")


async def _guarded(leader: Leader, work: Awaitable[Any]) -> Any:
    """Run a pass; None when it failed, after a pause, so that it is tried again."""
    try:
        result = await work
    except (LeaseLost, Resync):
        raise
    except Unavailable as error:
        log.warning("a pass of the leader failed and will be repeated", error=error.message)
        if leader.must_resync:
            raise Resync from error
    except ENDINGS:
        raise
    except BaseException as error:
        note_failure("a pass of the leader", error)
    else:
        if leader.must_resync:
            raise Resync
        return result
    leader.nudges.work.set()
    await asyncio.sleep(PAUSE_AFTER_ERROR_S)
    return None
