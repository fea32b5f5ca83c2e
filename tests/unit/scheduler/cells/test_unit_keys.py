"""The keys of a unit say exactly what it has, and order the units as promised."""

from __future__ import annotations

from itertools import pairwise

import pytest

from openpai.scheduler.cells.model import Bind, GangRequest
from openpai.scheduler.cells.unit_index import FINE_UP_TO, TENANTS_SEEN, GuaranteedKeys
from tests.scheduling.history import core_of

NODES_OF_EIGHT = """
physicalCluster:
  cellTypes: {NODE: {childCellType: V100, childCellNumber: 8, isNodeLevel: true}}
  physicalCells: [{cellType: NODE, cellAddress: n0}, {cellType: NODE, cellAddress: n1}]
virtualClusters:
  a: {virtualCells: [{cellType: NODE, cellNumber: 2}]}
"""


@pytest.mark.parametrize("size", [1, 4, 8])
def test_keys_say_what_units_have(size: int) -> None:
    keys = GuaranteedKeys(size)
    states = [
        (free, tenants, dirty)
        for free in range(size + 1)
        for tenants in range(size - free + 1)
        for dirty in range(free + 1)
    ]
    assert all(keys.free_of(keys.key(*state)) == state[0] for state in states)
    for number in range(1, size + 1):
        assert _states_in(keys.fits[number], keys, states) == {each for each in states if each[0] - each[2] >= number}
        assert _states_in(keys.could_fit[number], keys, states) == {each for each in states if each[0] >= number}
        for missing in range(1, number + 1):
            wanted = {each for each in states if each[0] >= number and each[0] - each[2] == number - missing}
            assert _states_in(keys.lacking(number, missing), keys, states) == wanted


@pytest.mark.parametrize(("size", "is_fine"), [(FINE_UP_TO, True), (FINE_UP_TO + 1, False)])
def test_gangs_on_large_units_are_not_counted(size: int, is_fine: bool) -> None:
    keys = GuaranteedKeys(size)
    assert (keys.key(8, 1, 0) != keys.key(8, 2, 0)) == is_fine


def _states_in(found: int, keys: GuaranteedKeys, states: list[tuple[int, int, int]]) -> set[tuple[int, int, int]]:
    return {state for state in states if found >> keys.key(*state) & 1}


def test_units_that_should_be_empty_last_come_first() -> None:
    keys = GuaranteedKeys(8)
    states = [(free, tenants) for free in range(9) for tenants in range(min(TENANTS_SEEN, 8 - free) + 1)]
    states.sort(key=lambda state: keys.key(state[0], state[1], 0))
    assert len({keys.key(free, tenants, 0) for free, tenants in states}) == len(states)
    for (free, tenants), (free_after, tenants_after) in pairwise(states):
        before = (max(1, free - tenants), free, -tenants)
        assert before < (max(1, free_after - tenants_after), free_after, -tenants_after)


def test_a_gang_joins_three_others_rather_than_one_that_has_more_devices() -> None:
    core = core_of(NODES_OF_EIGHT)

    def start(gang: str, devices: int) -> str:
        decision = core.schedule(GangRequest(gang, "a", ((1, devices),)))
        assert isinstance(decision, Bind)
        core.commit(gang)
        return decision.spots[0].node

    alone = start("four", 4)
    assert start("filler", 4) == alone
    (others,) = {start(f"one-{number}", 1) for number in range(3)}
    core.release("filler")
    # One gang has to end before its node is free, three before the other is.
    assert start("small", 1) == others != alone
