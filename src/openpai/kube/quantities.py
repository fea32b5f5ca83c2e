"""Reads Kubernetes quantities: `500m`, `2`, `16Gi`, `1e3`."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from math import ceil
from typing import Final

_FORM: Final = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([eE])([+-]?[0-9]{1,3})|(n|u|m|k|M|G|T|P|E|[KMGTPE]i)?)\Z"
)
_SUFFIXES: Final = {
    "": Decimal(1),
    **{
        suffix: Decimal(10) ** power
        for suffix, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)
    },
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
}


@lru_cache(maxsize=4096)
def quantity(text: str | float) -> Decimal:
    """Return the value of a quantity; raise ValueError for what is none."""
    found = _FORM.match(str(text))
    if found is None:
        raise ValueError(f"{str(text)[:60]!r} is not a quantity; quantities look like 2, 500m or 16Gi")
    number, _, exponent, suffix = found.groups()
    if exponent:
        return Decimal(number).scaleb(int(exponent))
    return Decimal(number) * _SUFFIXES[suffix or ""]


def whole(text: str | float) -> int:
    """Return a quantity rounded up, as Kubernetes rounds devices and bytes."""
    return ceil(quantity(text))


def milli(text: str | float) -> int:
    """Return a quantity in thousandths, rounded up, as Kubernetes counts CPU."""
    return ceil(quantity(text) * 1000)
