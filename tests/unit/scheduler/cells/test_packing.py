"""Packing finds what a plain search would find, in less time."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpai.scheduler.cells.packing import FirstFit, nodes_needed
from tests.costs import assert_linear

GPUS = 8


def one_by_one(sizes: list[int]) -> int:
    rooms: list[int] = []
    for size in sorted(sizes, reverse=True):
        at = next((at for at, room in enumerate(rooms) if room >= size), None)
        if at is None:
            rooms.append(GPUS - size)
        else:
            rooms[at] -= size
    return len(rooms)


@given(st.lists(st.integers(1, GPUS), max_size=60))
def test_members_fill_as_many_nodes_as_when_each_looks_for_room(sizes: list[int]) -> None:
    assert nodes_needed(sizes, GPUS) == one_by_one(sizes)


def test_counting_the_nodes_of_a_large_gang_costs_as_much_as_it_has_members() -> None:
    assert_linear(lambda members: lambda: nodes_needed([1] * members, GPUS), 4_000)


@pytest.mark.parametrize("seed", range(50))
def test_the_first_place_with_room_is_the_one_that_a_search_finds(seed: int) -> None:
    chance = random.Random(seed)
    room = {place: chance.randrange(9) for place in range(30)}
    found: FirstFit[int] = FirstFit(lambda place: room[place])
    used: list[int] = []
    for _ in range(300):
        number = chance.randrange(1, 9)
        allowed = frozenset(chance.sample(range(30), 15)) if chance.random() < 0.5 else None
        may_use = None if allowed is None else allowed.__contains__
        expected = next((p for p in used if room[p] >= number and (allowed is None or p in allowed)), None)
        assert found.first(number, may_use) == expected
        if chance.random() < 0.1:
            # Taken back: some places have more room again, and the last ones were never used.
            for place in used:
                room[place] += chance.randrange(3)
            del used[chance.randrange(len(used) + 1) :]
            found.restart(used)
            continue
        place = expected if expected is not None else chance.randrange(30)
        room[place] = max(0, room[place] - number)
        used.append(place)
        found.use(place)
