"""Removes what is kept no longer: logs, events, audit entries, alerts, kept work and idempotency keys.

The leader calls it soon after it began to lead, so that a server which is often restarted removes, too, and then each
hour; more often while something is kept for less than two hours.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from openpai.app.settings import DAYS_MAX, GB_MAX, Settings
from openpai.logs.retention import Limits, Retention
from openpai.ports.alerts import AlertStore
from openpai.ports.clock import Clock
from openpai.ports.store import JobStore, LeaseLost
from openpai.ports.usage import UsageStore
from openpai.protocol.errors import PaiError
from openpai.system.supervision import note_failure

DAY_MS: Final = 86_400_000
KEYS_KEPT_MS: Final = 7 * DAY_MS
EVERY_S: Final = 3600.0
EVERY_LEAST_S: Final = 60.0


def limits_of(settings: Settings) -> Limits:
    """Return the limits on the age and the size of logs."""
    return Limits(
        int((settings.log_retention_days or DAYS_MAX) * DAY_MS),
        int((settings.log_retention_gb or GB_MAX) * (1 << 30)),
        settings.log_max_mb << 20,
    )


def pause_s(settings: Settings) -> float:
    """Return the time between two passes: half of the shortest time for which something is kept, at most an hour."""
    days = (
        settings.log_retention_days,
        settings.event_retention_days,
        settings.audit_retention_days,
        settings.alert_retention_days,
        settings.work_retention_hours / 24,
        settings.checkpoint_retention_days,
    )
    shortest_s = min((each for each in days if each), default=DAYS_MAX) * DAY_MS / 1000
    return min(EVERY_S, max(EVERY_LEAST_S, shortest_s / 2))


class Housekeeping:
    """One pass over everything that is kept for a limited time."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        store: JobStore,
        usage: UsageStore,
        alerts: AlertStore,
        *,
        logs: Retention,
        others: Sequence[Callable[[], Awaitable[object]]] = (),
    ) -> None:
        self._clock = clock
        self._pause_s = pause_s(settings)
        aged = (
            (KEYS_KEPT_MS, store.forget_keys),
            (int(settings.event_retention_days * DAY_MS), store.forget_events),
            (int(settings.audit_retention_days * DAY_MS), usage.forget_audit),
            (int(settings.alert_retention_days * DAY_MS), alerts.forget),
        )
        self._aged = [(kept_ms, forget) for kept_ms, forget in aged if kept_ms]
        self._others = (logs.run_once, *others)

    async def clean_up(self) -> float:
        """Remove what is kept no longer; return after how many seconds to do it again."""
        now_ms = self._clock.now_ms()
        for kept_ms, forget in self._aged:
            await _tried(partial(forget, now_ms - kept_ms))
        for remove in self._others:
            await _tried(remove)
        return self._pause_s


async def _tried(remove: Callable[[], Awaitable[object]]) -> None:
    """Remove one kind of thing; what fails here must not keep the others for ever."""
    try:
        await remove()
    except (PaiError, LeaseLost):
        raise
    except Exception as error:
        note_failure("remove what is kept no longer", error)
