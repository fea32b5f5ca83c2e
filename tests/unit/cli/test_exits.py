"""Exit codes follow from an error's family and code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from openpai.cli.exits import MEANING, Exit, exit_for, exit_table
from openpai.protocol.errors import STATUS_OF, Broken, Fault, InvalidProtocol, Refused, Unavailable


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidProtocol((Fault("", "x"),)), Exit.REFUSED),
        (Refused("InvalidParametersError", "x"), Exit.REFUSED),
        (Refused("NoJobError", "x"), Exit.NOT_FOUND),
        (Refused("UnauthorizedUserError", "x"), Exit.NOT_ALLOWED),
        (Refused("ForbiddenUserError", "x"), Exit.NOT_ALLOWED),
        (Refused("IncorrectPasswordError", "x"), Exit.NOT_ALLOWED),
        (Refused("ConflictJobError", "x"), Exit.CONFLICT),
        (Refused("FinishedJobError", "x"), Exit.JOB_OVER),
        (Refused("ReadOnlyJobError", "x"), Exit.JOB_OVER),
        (Unavailable("x"), Exit.UNAVAILABLE),
        (Broken("x"), Exit.BUG),
    ],
)
def test_each_kind_of_failure_has_its_code(error, code):
    assert exit_for(error) is code


def test_no_error_counts_as_success_or_as_a_failed_job():
    assert not {exit_for(Refused(code, "x")) for code in STATUS_OF} & {Exit.OK, Exit.JOB_FAILED}


def test_the_table_explains_every_code():
    assert set(MEANING) == set(Exit)
    assert all(str(code.value) in exit_table() for code in Exit)


def test_the_guide_has_the_same_table():
    guide = (Path(__file__).resolve().parents[3] / "docs" / "guide.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", guide, re.MULTILINE)
    assert rows == [(str(code.value), meaning) for code, meaning in MEANING.items()]
