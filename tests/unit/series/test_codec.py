"""Blocks: what is read is what was written, within the promised error."""

from __future__ import annotations

import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpai.protocol.errors import Broken
from openpai.series.codec import decode, encode
from openpai.series.model import MISSING

value = st.one_of(st.just(MISSING), st.floats(-1e38, 1e38), st.integers(-40_000, 40_000).map(float))


@given(st.integers(0, 40).flatmap(lambda n: st.lists(st.lists(value, min_size=n, max_size=n), max_size=4)))
def test_a_value_differs_by_a_thousandth_of_the_greatest_at_most(columns: list[list[float]]) -> None:
    length = len(columns[0]) if columns else 0
    block = encode({7 * number: column for number, column in enumerate(columns)}, length)
    found = decode(block)
    assert len(found) == len(columns)
    for number, column in enumerate(columns):
        greatest = max((abs(one) for one in column if one == one), default=0.0)
        for was, now in zip(column, found[7 * number], strict=True):
            assert math.isnan(was) == math.isnan(now)
            assert math.isnan(was) or abs(was - now) <= max(greatest * 0.001001, 1e-300)


def test_small_whole_numbers_and_decimal_readings_are_exact() -> None:
    whole = [float(n * 37 % 30_000) for n in range(360)]
    power = list(array("f", [31.4, 31.2, 30.8]))
    found = decode(encode({1: whole, 2: [*power, *[MISSING] * 357]}, 360))
    assert found[1] == whole
    assert found[2][:3] == pytest.approx([31.4, 31.2, 30.8])


def test_one_column_can_be_read_alone() -> None:
    noise = [float(n * n % 997) for n in range(100)]
    block = encode({1: noise, 2: [MISSING, *noise[1:]], 3: [value * 1e9 for value in noise]}, 100)
    assert decode(block, frozenset({3})).keys() == {3}
    assert decode(block, frozenset({2}))[2][1:] == noise[1:]


@pytest.mark.parametrize("block", [b"", b"\x09\x01\x00\x01\x00", b"\x01\x01\x00\x05\x00junk", b"\x01\xff\xff\x05\x00"])
def test_what_is_no_block_is_said(block: bytes) -> None:
    with pytest.raises(Broken, match="a block of metrics cannot be read"):
        decode(block)


def test_a_day_of_a_quiet_series_takes_few_bytes() -> None:
    assert len(encode({1: [42.0] * 360}, 360)) < 40
