"""Faults that Pydantic finds, in plain words."""

from __future__ import annotations

import pytest

from openpai.api.routes.job_changes import NO_CONTROLS
from openpai.protocol.wording import validation_message


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (NO_CONTROLS, "must be one line without control characters"),
        (r"^[^,\x00-\x1f]+$", "must be one line without commas and control characters"),
    ],
)
def test_known_patterns_are_put_in_words(pattern, message):
    assert validation_message({"type": "string_pattern_mismatch", "ctx": {"pattern": pattern}, "msg": ""}) == message
