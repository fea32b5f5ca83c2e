"""Faults that Pydantic finds, in plain words."""

from __future__ import annotations

import pytest

from openpai.api.routes.job_changes import NO_CONTROLS
from openpai.protocol.wording import amount, duration, exact, validation_message


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (NO_CONTROLS, "must be one line without control characters"),
        (r"^[^,\x00-\x1f]+$", "must be one line without commas and control characters"),
    ],
)
def test_known_patterns_are_put_in_words(pattern, message):
    assert validation_message({"type": "string_pattern_mismatch", "ctx": {"pattern": pattern}, "msg": ""}) == message


def test_amounts_have_the_digits_that_say_something() -> None:
    values = (0, 0.400556, 0.000278, 1, 12.3456, 1234567.891, 100.0)
    assert [amount(value) for value in values] == ["0", "0.4", "0.00028", "1", "12.35", "1234567.89", "100"]
    assert [exact(value) for value in (1234567.0, 0.1 + 0.2, 10_000_000)] == ["1234567", "0.3", "10000000"]


def test_lengths_of_time_read_as_people_say_them() -> None:
    found = [duration(seconds) for seconds in (0, 29.4, 3187, 7200, 90_061, 86_400 * 3)]
    assert found == ["0 s", "29 s", "53 min", "2 h", "1 d 1 h", "3 d"]
