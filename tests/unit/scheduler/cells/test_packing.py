"""How many nodes members fill: as many as by looking for room for one after the other, and not as slow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from openpai.scheduler.cells.packing import nodes_needed
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
