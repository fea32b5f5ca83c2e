"""A pattern for progress that cannot be used is refused when the job is submitted."""

from __future__ import annotations

import pytest

from openpai.protocol.progress_pattern import progress_pattern
from openpai.protocol.reading import read_job

from .jobs import job, only_fault, text_of


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (r"step (\d+)", "has no group named step"),
        (r"(?P<step>\d+", "cannot be used: missing )"),
        (r"(?P<step>\d+)(?=x)", "cannot be used"),
        (r"(?P<step>((a{1,99}){1,99}){1,9})", "cannot be used"),
        ("".join(f"(?P<m{number}>.)" for number in range(23)) + "(?P<step>.)", "has 24 named groups"),
    ],
)
def test_a_pattern_for_progress_that_cannot_be_used_is_refused(pattern: str, message: str) -> None:
    fault = only_fault(job(extras={"progress": {"pattern": pattern}}))
    assert fault.path == "extras.progress.pattern"
    assert message in fault.message
    assert "RE2" in fault.allowed


def test_a_pattern_for_progress_that_can_be_used_is_taken() -> None:
    pattern = r"(?P<step>\d+)/(?P<total>\d+)"
    spec = read_job(text_of(job(extras={"progress": {"pattern": pattern}}))).spec
    assert progress_pattern(spec.extras) == pattern
    assert progress_pattern({}) == progress_pattern({"progress": {"pattern": 3}}) == ""


@pytest.mark.parametrize("pattern", ["", "x" * 501, 7])
def test_a_pattern_of_another_length_or_kind_is_refused(pattern: object) -> None:
    assert only_fault(job(extras={"progress": {"pattern": pattern}})).path == "extras.progress.pattern"
