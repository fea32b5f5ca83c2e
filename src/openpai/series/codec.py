"""Compresses the values of several series over the same times into a block, and reads it again.

Values are rounded to steps of at most one 500th of the greatest in the block, so that one that is read differs from the
measured one by at most a thousandth of that; small whole numbers stay as they are. What is kept of each value is the
difference to the one before, or to the middle of them where they are noise around it, as one byte; few are larger.
The bytes of all series of a block are compressed together by zlib, whose tables would be larger than a short series.
"""

from __future__ import annotations

import math
import struct
import zlib
from array import array
from collections.abc import Mapping, Sequence
from itertools import accumulate, compress
from operator import sub
from typing import Final

from openpai.protocol.errors import Broken
from openpai.series.model import MISSING

Columns = Mapping[int, Sequence[float]]
"""Values by the number of the series; NaN where nothing was measured."""

_HEAD: Final = struct.Struct("<BHH")
"""Version, number of series, number of values of each."""
_COLUMN: Final = struct.Struct("<HhBiH")
"""Number of the series, step, flags, first value or middle, number of large values."""
_VERSION: Final = 1
_HAS_GAPS, _IS_DIFFERENCE = 1, 2
_STEPS: Final = (1.0, 2.0, 5.0)
_LARGE: Final = -128
_LEVELS: Final = 500
_EXACT_MAX: Final = 1 << 15
_ALWAYS: Final = 1.2
"""How much smaller the distances from the middle must be than the differences, to be kept instead of these."""


def encode(columns: Columns, length: int) -> bytes:
    """Return a block of columns that have `length` values each."""
    heads, gaps, smalls, larges = [], [], [], []
    for number, values in columns.items():
        present = [value for value in values if value == value]
        step = _step_of(present)
        whole = _rounded(present, step)
        flags, origin, kept = _differences(whole)
        if len(present) < length:
            flags |= _HAS_GAPS
            gaps.append(_bits(values))
        large = [value for value in kept if not -128 < value < 128]
        if large:
            kept = [value if -128 < value < 128 else _LARGE for value in kept]
        heads.append(_COLUMN.pack(number, step, flags, origin, len(large)))
        smalls.append(array("b", kept).tobytes())
        larges.append(array("i", large).tobytes())
    packed = b"".join((*heads, *gaps, *larges, *smalls))
    return _HEAD.pack(_VERSION, len(columns), length) + zlib.compress(packed, 9, -15)


def decode(block: bytes, wanted: frozenset[int] | None = None) -> dict[int, list[float]]:
    """Return the columns of a block, or the wanted ones; raise Broken for what is no block."""
    try:
        return _decoded(block, wanted)
    except (struct.error, zlib.error, ValueError, IndexError) as error:
        raise Broken(f"a block of metrics cannot be read: {error}") from error


def _decoded(block: bytes, wanted: frozenset[int] | None) -> dict[int, list[float]]:
    version, count, length = _HEAD.unpack_from(block)
    if version != _VERSION:
        raise ValueError(f"it has version {version}")
    packed = zlib.decompress(block[_HEAD.size :], -15)
    heads = [_COLUMN.unpack_from(packed, _COLUMN.size * index) for index in range(count)]
    bitmap = (length + 7) // 8
    gap_at = _COLUMN.size * count
    large_at = gap_at + bitmap * sum(1 for head in heads if head[2] & _HAS_GAPS)
    small_at = large_at + 4 * sum(head[4] for head in heads)
    found = {}
    for number, step, flags, origin, large_count in heads:
        bits = None
        if flags & _HAS_GAPS:
            bits, gap_at = packed[gap_at : gap_at + bitmap], gap_at + bitmap
        there = _flags(bits, length) if bits is not None else None
        present = length if there is None else sum(there)
        if wanted is None or number in wanted:
            kept = array("b", packed[small_at : small_at + present]).tolist()
            if large_count:
                large = iter(array("i", packed[large_at : large_at + 4 * large_count]))
                kept = [value if value != _LARGE else next(large) for value in kept]
            found[number] = _values(kept, step, flags, origin, there)
        small_at, large_at = small_at + present, large_at + 4 * large_count
    return found


def _values(kept: list[int], step: int, flags: int, origin: int, there: list[int] | None) -> list[float]:
    whole = list(accumulate(kept, initial=origin))[1:] if flags & _IS_DIFFERENCE else [value + origin for value in kept]
    size = _size(step)
    # Divided by a power of ten, decimal values become what they were.
    values = [value * size for value in whole] if step >= 0 else [value / (1 / size) for value in whole]
    if there is None:
        return values
    rest = iter(values)
    return [next(rest) if bit else MISSING for bit in there]


def _step_of(present: Sequence[float]) -> int:
    """Return the number of the step to which these values are rounded."""
    greatest = max(map(abs, present), default=0.0)
    if greatest < _EXACT_MAX and all(map(float.is_integer, present)):
        return 0
    wanted = max(greatest / _LEVELS, 1e-300)
    power = math.floor(math.log10(wanted))
    place = sum(wanted >= step * 10.0**power for step in _STEPS) - 1
    return 3 * power + max(0, place)


def _size(step: int) -> float:
    return _STEPS[step % 3] * 10.0 ** (step // 3)


def _rounded(present: Sequence[float], step: int) -> list[int]:
    if step == 0:
        return list(map(int, present))
    size = 1 / _size(step)
    return [round(value * size) for value in present]


def _differences(whole: list[int]) -> tuple[int, int, list[int]]:
    """Return the flags, the origin, and what is kept of each value."""
    if not whole:
        return 0, 0, []
    steps = list(map(sub, whole, [whole[0], *whole[:-1]]))
    middle = sum(whole) // len(whole)
    around = [value - middle for value in whole]
    if sum(map(abs, around)) * _ALWAYS < sum(map(abs, steps)):
        return 0, middle, around
    return _IS_DIFFERENCE, whole[0], steps


def _bits(values: Sequence[float]) -> bytes:
    """Return a bit for each value, set where one was measured."""
    number = 0
    for place in compress(range(len(values)), (value == value for value in values)):
        number |= 1 << place
    return number.to_bytes((len(values) + 7) // 8, "little")


def _flags(bits: bytes, length: int) -> list[int]:
    text = bin(int.from_bytes(bits, "little") | 1 << length)[:2:-1]
    return [int(bit) for bit in text]
