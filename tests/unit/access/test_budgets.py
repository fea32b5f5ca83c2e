"""Periods begin and end where the calendar says, and warnings are those that were asked for."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from openpai.access.budgets import Budget, BudgetState, Kind, Period, began_ms, reached, renewal, renews_ms, state_at


def at(year: int, month: int, day: int = 1) -> int:
    return int(datetime(year, month, day, tzinfo=UTC).timestamp() * 1000)


def test_months_and_quarters_begin_where_the_calendar_says() -> None:
    leap_day = at(2028, 2, 29)
    assert (began_ms(Period.MONTH, leap_day), renews_ms(Period.MONTH, leap_day)) == (at(2028, 2), at(2028, 3))
    assert (began_ms(Period.QUARTER, leap_day), renews_ms(Period.QUARTER, leap_day)) == (at(2028, 1), at(2028, 4))
    december = at(2027, 12, 31)
    assert renews_ms(Period.MONTH, december) == renews_ms(Period.QUARTER, december) == at(2028, 1)
    assert (began_ms(Period.TOTAL, december), renews_ms(Period.TOTAL, december)) == (0, None)
    budget = Budget(Kind.USER, "ann", Period.QUARTER, 1.0)
    assert renewal(budget, december) == "it is renewed on 2028-01-01 (UTC)"


@given(st.integers(0, 4 * 10**12), st.sampled_from([Period.MONTH, Period.QUARTER]))
def test_each_time_lies_in_its_period_and_periods_follow_each_other(at_ms: int, period: Period) -> None:
    begins, ends = began_ms(period, at_ms), renews_ms(period, at_ms)
    assert ends is not None
    assert begins <= at_ms < ends
    assert began_ms(period, ends - 1) == begins
    assert began_ms(period, ends) == ends


def test_the_greatest_share_that_is_reached_is_warned_of() -> None:
    budget = Budget(Kind.VC, "vision", Period.MONTH, 100.0, (0.9, 0.5))
    assert [reached(budget, hours) for hours in (0, 49.9, 50, 89.9, 90, 99.9, 100, 500)] == [
        0, 0, 0.5, 0.5, 0.9, 0.9, 1, 1,
    ]  # fmt: skip
    assert reached(Budget(Kind.VC, "vision", Period.MONTH, 0.0), 0.0) == 1


def test_what_was_done_in_an_earlier_period_does_not_count() -> None:
    state = BudgetState(at(2027, 12), 1.0, at(2027, 12, 5))
    budget = Budget(Kind.VC, "vision", Period.MONTH, 100.0, state=state)
    assert state_at(budget, at(2027, 12, 31)) == state
    assert state_at(budget, at(2028, 1)) == BudgetState(at(2028, 1))
