"""Lemons are drained in a replay over the real scheduler, and a user who wants it drains no good node."""

from __future__ import annotations

import pytest

from bench.lemon_faults import FaultSpec, replay_faults

SMALL = {"jobs": 1200, "days": 40.0, "nodes": 63, "lemons": 3}


@pytest.mark.slow
def test_most_faults_of_lemons_are_avoided_and_a_hostile_user_drains_nothing_else() -> None:
    before, _ = replay_faults(FaultSpec(threshold=0), **SMALL)  # type: ignore[arg-type]
    spec = FaultSpec(forged=1.0, forgers=frozenset({"vc01-user0"}))
    after, lemons = replay_faults(spec, **SMALL)  # type: ignore[arg-type]
    assert before.of_lemons > 50
    assert before.drained == {}
    assert after.of_lemons < 0.3 * before.of_lemons
    assert set(after.drained) <= lemons
