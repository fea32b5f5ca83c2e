"""What Pydantic finds wrong, in words that people know."""

from __future__ import annotations

import pytest

from openpai.api.routes.jobs import NO_CONTROLS
from openpai.protocol.rejections import complaint


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (NO_CONTROLS, "must be one line without control characters"),
        (r"^[^,\x00-\x1f]+$", "must be one line without commas and control characters"),
    ],
)
def test_a_text_that_must_be_one_line_is_not_told_a_pattern(pattern, message):
    assert complaint({"type": "string_pattern_mismatch", "ctx": {"pattern": pattern}, "msg": ""}) == message
