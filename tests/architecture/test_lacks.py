"""The last lines of a test run say what a machine lacks."""

from __future__ import annotations

import pytest

from tests.lacks import missing, summary


def test_skips_are_counted_by_what_would_undo_them() -> None:
    reasons = [
        "Skipped: no container Engine answers, and there is no dockerd to start",
        "Skipped: PostgreSQL's initdb and pg_ctl are not on this machine",
        "Skipped: no container Engine answers, and there is no dockerd to start",
        "Skipped: the docker backend needs the package 'aiodocker', which is not installed",
        "Skipped: SQLite keeps it",
    ]
    assert summary(reasons) == (
        "2 skipped: no dockerd that root may start (apt-get install docker.io); "
        "1 skipped: no PostgreSQL (apt-get install postgresql); "
        "1 skipped: no package aiodocker (pip install --group dev)"
    )
    assert summary(["Skipped: SQLite keeps it"]) == ""


@pytest.mark.parametrize("shell", ["bash", "busybox"])
def test_a_shell_is_installed_by_its_name(shell: str) -> None:
    assert missing(f"Skipped: {shell} is not installed here") == f"no {shell} (apt-get install {shell})"


def test_an_unknown_reason_is_shown_as_it_is() -> None:
    assert missing("Skipped: the moon is not full") == "other reasons (the moon is not full)"
