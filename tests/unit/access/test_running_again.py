"""A job runs again only while its owner could submit it: each way to lose that right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openpai.access.model import Principal, Role, Thing
from openpai.access.running_again import why_not_again

ANN = Principal("ann", Role.USER, virtual_clusters=frozenset({"vision"}), storages=frozenset({"data"}), since_ms=10)
JOB = Thing("ann", "vision", made_at_ms=20)


def test_an_owner_who_could_submit_the_job_may_run_it_again() -> None:
    assert why_not_again(ANN, JOB, ["data"]) == ""
    assert why_not_again(replace(ANN, role=Role.ADMIN), JOB, ["secret"]) == ""


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        (None, "no longer has an account"),
        (replace(ANN, since_ms=30), "the name belongs to a new account"),
        (replace(ANN, role=Role.VIEWER), "is a viewer"),
        (replace(ANN, virtual_clusters=frozenset()), "may no longer use virtual cluster vision"),
        (replace(ANN, storages=frozenset()), "no longer granted storage data"),
    ],
)
def test_an_owner_who_lost_a_right_may_not(owner: Principal | None, reason: str) -> None:
    assert reason in why_not_again(owner, JOB, ["data"])
