"""`pai budget` sets, shows and removes budgets, and names what it cannot understand."""

from __future__ import annotations

import json
from typing import Any

import pytest

BUDGET = {
    "kind": "vc", "name": "vision", "period": "month", "gpuHours": 5000, "warnAt": [0.8], "stops": "opportunistic",
    "noticeMinutes": 60, "contact": "room 5", "gpuHoursUsed": 4012.5, "renewsAt": 1_764_547_200_000, "usedUpAt": None,
}  # fmt: skip


def test_budgets_are_listed_with_their_use(pai: Any, platform: Any) -> None:
    platform.on("GET", "/budgets", [BUDGET, BUDGET | {"period": "total", "renewsAt": None, "gpuHours": 0}])
    first, second = (line.split() for line in pai("budget", "list").out.splitlines()[1:3])
    assert first == ["vc", "vision", "month", "4012.5", "5000", "80%", "2025-12-01", "opportunistic"]
    assert second[4:7] == ["0", "100%", "never"]
    platform.on("GET", "/budgets", [])
    assert "GPU hours are not limited" in pai("budget", "list").out


def test_a_budget_is_set_and_removed_as_it_was_said(pai: Any, platform: Any) -> None:
    platform.on("PUT", "/budgets", {"status": 201, "message": "ok"}, status=201)
    options = ("--warn", "50,80%", "--stop", "all", "--notice", "2h", "--contact", "room 5", "--period", "quarter")
    assert (
        "is set: 500.5 GPU hours, quarter"
        in pai("budget", "set", "--group", "lab", "--gpu-hours", "500.5", *options).out
    )
    assert json.loads(platform.requests[-1].content) == {
        "kind": "group", "name": "lab", "period": "quarter", "gpuHours": 500.5, "warnAt": [0.5, 0.8], "stops": "all",
        "noticeMinutes": 120, "contact": "room 5",
    }  # fmt: skip
    platform.on("DELETE", "/budgets", {"status": 200, "message": "ok"})
    pai("budget", "remove", "--group", "lab", "--period", "quarter", "--yes")
    assert dict(platform.requests[-1].url.params) == {"kind": "group", "name": "lab", "period": "quarter"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gpu-hours", "5"], "give --user, --group or --vc"),
        (["--gpu-hours", "5", "--vc", "a", "--user", "b"], "give --user, --group or --vc"),
        (["--gpu-hours", "many", "--vc", "a"], "number of hours"),
        (["--gpu-hours", "nan", "--vc", "a"], "number of hours"),
        (["--gpu-hours", "5", "--vc", "a", "--warn", "100"], "not a share"),
        (["--gpu-hours", "5", "--vc", "a", "--period", "week"], "month, quarter, total"),
        (["--gpu-hours", "5", "--vc", "a", "--stop", "some"], "none, opportunistic, all"),
        (["--gpu-hours", "5", "--vc", "a", "--notice", "soon"], "not a duration"),
    ],
)
def test_what_makes_no_sense_is_refused_before_it_is_sent(
    pai: Any, platform: Any, words: list[str], message: str
) -> None:
    found = pai("budget", "set", *words)
    assert found.code != 0
    assert message in found.err
    assert platform.requests == []
