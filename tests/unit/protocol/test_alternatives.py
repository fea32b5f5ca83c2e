"""A value that may have several forms, such as text or a mapping, has one fault."""

from __future__ import annotations

from typing import Any

import pytest

from .jobs import job, only_fault


@pytest.mark.parametrize(
    ("extras", "path", "message"),
    [
        ({"after": [5]}, "extras.after[0]", "must be text or a mapping of keys to values, not the number 5"),
        ({"after": [{"jobs": "x"}]}, "extras.after[0].job", "is missing"),
        ({"after": [""]}, "extras.after[0]", "must not be empty"),
        ({"after": [{"job": "x", "until": "y"}]}, "extras.after[0].until", 'must not be the text "y"'),
        (
            {"sweep": {"matrix": {"lr": [None]}}},
            "extras.sweep.matrix.lr[0]",
            "must be text, true or false or a number, not null",
        ),
        ({"sweep": {"matrix": {"str": 4}}}, "extras.sweep.matrix.str", "must be a list, not the number 4"),
        ({"sweep": {"matrix": {"int": [{}]}}}, "extras.sweep.matrix.int[0]", "must be text, true or false or a number"),
    ],
)
def test_a_value_of_several_forms_has_one_fault(extras: dict[str, Any], path: str, message: str) -> None:
    fault = only_fault(job(extras=extras))
    assert (fault.path, fault.message[: len(message)]) == (path, message)


def test_a_key_of_extras_at_the_top_is_said_to_belong_there() -> None:
    assert only_fault(job(after=["prepare"])).suggestion == "extras.after"
