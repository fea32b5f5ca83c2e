"""Sums of reports agree, however they are grouped."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpai.api.shapes import reports
from openpai.ports.usage import UseRow

_NAMES = st.sampled_from(["a", "b", "c"])
# Halves add up without rounding.
_HOURS = st.integers(0, 1000).map(lambda halves: halves / 2)


@st.composite
def _row(draw: st.DrawFn) -> UseRow:
    amounts = {each.name: draw(_HOURS) for each in fields(UseRow) if each.name.startswith(("gpu", "cpu", "memory"))}
    user = draw(st.sampled_from(["", "ann", "bob", "eve"]))
    counts = {"task_attempts": draw(st.integers(0, 9)), "jobs_moved": draw(st.integers(0, 9))}
    # Only a virtual cluster lends, and it uses nothing; all else is of users.
    amounts = {name: amount if (name == "gpu_hours_lent") != bool(user) else 0.0 for name, amount in amounts.items()}
    return UseRow(
        f"2026-01-0{draw(st.integers(1, 9))}",
        user,
        draw(_NAMES),
        **amounts,
        **(counts if user else {"task_attempts": 0}),
    )


@given(st.lists(_row(), max_size=30), st.permutations(["user", "vc", "day"]), st.integers(1, 3))
def test_users_virtual_clusters_and_days_add_up_to_the_same_total(
    rows: list[UseRow], words: list[str], count: int
) -> None:
    by = words[:count]
    total = reports.total(rows)
    found = reports.added_up(rows, by, lambda _: ("",))
    for name, amount in total.items():
        if name == "gpuHoursLent" and "user" in by:
            continue  # it belongs to no user
        assert sum(entry[name] for entry in found) == pytest.approx(amount), name
    parts = [total[f"gpuHours{part}"] for part in ("Idle", "Failed", "Preempted")]
    assert total["gpuHoursWasted"] == pytest.approx(sum(parts))
