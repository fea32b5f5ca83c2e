"""Quantities are read as Kubernetes reads them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from openpai.kube.quantities import milli, quantity, whole


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", "2"),
        ("500m", "0.5"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("2.", "2"),
        ("16Gi", "17179869184"),
        ("1k", "1000"),
        ("1Ki", "1024"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1E", "1000000000000000000"),
        ("1Ei", "1152921504606846976"),
        ("100n", "0.0000001"),
        ("-3", "-3"),
        (7, "7"),
        (0.25, "0.25"),
    ],
)
def test_a_quantity_has_its_value(text: str | float, value: str) -> None:
    assert quantity(text) == Decimal(value)


def test_devices_bytes_and_processors_are_rounded_up() -> None:
    assert (whole("1500m"), whole("1"), whole("100n"), whole("0")) == (2, 1, 1, 0)
    assert (milli("250m"), milli("2"), milli("100u")) == (250, 2000, 1)


@pytest.mark.parametrize("text", ["", "x", "1KI", "1 Gi", "--1", "1e9999", "1Gi\n", "٣", "0x10", "NaN", "1e"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity(text)
