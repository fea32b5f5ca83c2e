"""Calls that cannot be carried out are refused before anything has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from openpai.protocol.errors import Refused
from openpai.scheduler.cells.model import GangRequest
from openpai.scheduler.model import Spot

Make = Callable[..., Any]


@pytest.mark.parametrize("members", [[-1], [0, 99], [2], [0, 1.0]])
def test_members_that_are_not_there_cannot_leave(racks: Make, members: list[int]) -> None:
    driver = racks(1, {"a": {"RACK": 1}})
    driver.run("pair", "a", 2, 2)
    before = driver.core.snapshot()
    with pytest.raises(Refused, match="members 0 to 1"):
        driver.core.release("pair", members)
    driver.look()
    assert driver.core.snapshot() == before


def test_members_may_be_released_one_by_one_or_twice(racks: Make) -> None:
    driver = racks(1, {"a": {"RACK": 1}})
    driver.run("pair", "a", 2, 2)
    driver.core.release("pair", (member for member in [1, 1]))
    driver.look()
    assert [spot.devices for spot in driver.core.spots_held("pair")] == [(0, 1)]
    driver.core.release("pair", iter([0]))
    assert driver.core.cluster.gangs == {}


@pytest.mark.parametrize(
    ("request_", "spots"),
    [
        (GangRequest("g", "a", ((2, 1),)), [Spot("r0n0", (0,))]),
        (GangRequest("g", "a", ((2, 1),)), [Spot("r0n0", (0,)), Spot("r0n0", (0,))]),
        (GangRequest("g", "a", ((1, 2),)), [Spot("r0n0", (1, 1))]),
        (GangRequest("g", "a", ((1, 1),), 5000), [Spot("r0n0", (0,))]),
        (GangRequest("g", "a", ((1, 1),), -7), [Spot("r0n0", (0,))]),
        (GangRequest("g", "a", ((1, 0),)), [Spot("r0n0", ())]),
    ],
)
def test_what_cannot_have_been_placed_is_not_restored(racks: Make, request_: GangRequest, spots: list[Spot]) -> None:
    driver = racks(1, {"a": {"RACK": 1}})
    before = driver.core.snapshot()
    with pytest.raises(Refused):
        driver.core.restore(request_, spots)
    driver.look()
    assert driver.core.snapshot() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (GangRequest("pair", "a", ((2, 2),), 5000), "priority 5000"),
        (GangRequest("pair", "a", ((2, 2),), -7), "priority -7"),
        (GangRequest("pair", "a", ((3, 2),)), "3 members"),
        (GangRequest("other", "a", ((1, 1),)), "'other' does not run"),
    ],
)
def test_a_change_that_is_refused_stops_nothing(racks: Make, change: GangRequest, message: str) -> None:
    driver = racks(1, {"a": {"RACK": 1}})
    driver.run("pair", "a", 2, 2)
    before = driver.core.snapshot()
    with pytest.raises(Refused, match=message):
        driver.core.change(change)
    driver.look()
    assert driver.core.snapshot() == before


@pytest.mark.parametrize("other", ["pair", "new"])
def test_gangs_that_start_together_are_named_once_and_do_not_run(racks: Make, other: str) -> None:
    driver = racks(1, {"a": {"RACK": 1}})
    driver.run("pair", "a", 1, 1)
    before = driver.core.snapshot()
    with pytest.raises(Refused, match=f"gang '{other}' has devices already, or is named twice"):
        driver.core.schedule_all([GangRequest("new", "a", ((1, 1),)), GangRequest(other, "a", ((1, 1),))])
    driver.look()
    assert driver.core.snapshot() == before
