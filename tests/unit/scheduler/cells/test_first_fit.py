"""Places found by their room are those that a look through all of them, in the order of their use, would find."""

from __future__ import annotations

import random

import pytest

from openpai.scheduler.cells.first_fit import FirstFit


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
