"""Budgets: GPU hours that a user, a group or a virtual cluster may use in a period.

A quota limits what is held; a budget what is used up. Beyond it no new job that asks for GPUs is accepted, and what is
left of the cluster's jobs ends as the budget says. Days and months are those of UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from openpai.protocol.wording import amount, exact

WARN_AT: Final = (0.8,)
NOTICE_MINUTES: Final = 60.0


class Kind(StrEnum):
    """The subject whose use a budget counts."""

    USER = "user"
    GROUP = "group"
    """The use of its present members, in every virtual cluster."""
    VC = "vc"


class Period(StrEnum):
    """After which time a budget renews."""

    MONTH = "month"
    QUARTER = "quarter"
    TOTAL = "total"
    """Never: everything counts that was ever used."""


class Stops(StrEnum):
    """Which accepted jobs are stopped, after a notice, once a budget is used up."""

    NONE = "none"
    OPPORTUNISTIC = "opportunistic"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class BudgetState:
    """What was done about a budget in the period that began at `since_ms`."""

    since_ms: int = 0
    warned: float = 0.0
    """The greatest share that was warned of."""
    used_up_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """The GPU hours of one user, group or virtual cluster in each period."""

    kind: Kind
    name: str
    period: Period
    gpu_hours: float
    warn_at: tuple[float, ...] = WARN_AT
    """Shares of the hours at which a warning is sent, beside the one at 1."""
    stops: Stops = Stops.NONE
    notice_minutes: float = NOTICE_MINUTES
    contact: str = ""
    """The person or office to ask for more; refusals name it."""
    state: BudgetState = field(default=BudgetState(), compare=False)

    @property
    def label(self) -> str:
        """Return its owner for people."""
        return f"virtual cluster {self.name}" if self.kind is Kind.VC else f"{self.kind} {self.name}"

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what names it."""
        return self.kind.value, self.name, self.period.value


def began_ms(period: Period, at_ms: int) -> int:
    """Return when the period of a time began."""
    if period is Period.TOTAL:
        return 0
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return _ms(at.year, at.month if period is Period.MONTH else at.month - (at.month - 1) % 3)


def renews_ms(period: Period, at_ms: int) -> int | None:
    """Return when the next period begins; None for a budget that is never renewed."""
    if period is Period.TOTAL:
        return None
    at = datetime.fromtimestamp(began_ms(period, at_ms) / 1000, UTC)
    months = at.month - 1 + (1 if period is Period.MONTH else 3)
    return _ms(at.year + months // 12, months % 12 + 1)


def state_at(budget: Budget, at_ms: int) -> BudgetState:
    """Return what was done about a budget in the period of a time."""
    since_ms = began_ms(budget.period, at_ms)
    return budget.state if budget.state.since_ms == since_ms else BudgetState(since_ms)


def reached(budget: Budget, hours: float) -> float:
    """Return the greatest of the shares to warn of that a use has reached; 1 if it is used up, 0 for none."""
    if hours >= budget.gpu_hours:
        return 1.0
    return max((share for share in budget.warn_at if hours >= share * budget.gpu_hours), default=0.0)


def in_words(budget: Budget, hours: float) -> str:
    """Return how much of a budget is used."""
    period = "" if budget.period is Period.TOTAL else f" of this {budget.period}"
    return f"{amount(hours)} of its {exact(budget.gpu_hours)} GPU hours{period} are used"


def renewal(budget: Budget, at_ms: int) -> str:
    """Return when a budget renews."""
    begins_ms = renews_ms(budget.period, at_ms)
    if begins_ms is None:
        return "it is never renewed"
    return f"it is renewed on {datetime.fromtimestamp(begins_ms / 1000, UTC).date().isoformat()} (UTC)"


def whom_to_ask(budget: Budget) -> str:
    """Return who can give more."""
    return f"ask {budget.contact}" if budget.contact else "ask an administrator"


def _ms(year: int, month: int) -> int:
    return int(datetime(year, month, 1, tzinfo=UTC).timestamp()) * 1000
