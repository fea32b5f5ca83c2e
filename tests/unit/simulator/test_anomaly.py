"""The sharing anomaly is there under quotas, and gone under HiveD."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from openpai.simulator.anomaly import DEFAULT, default_case, find_anomaly, private_config
from openpai.simulator.cluster import generated, quotas_of
from openpai.simulator.replay import Rules
from openpai.simulator.simulate import simulate
from openpai.simulator.synthetic import SyntheticSpec, generate
from tests.unit.simulator.clusters import job, trace

HOUR_MS: Final = 3_600_000

# Two teams with two nodes of eight GPUs each. One has many small jobs, of which a few run long; the other needs nodes.
SMALL = [job(f"short{at}", 0, 10, 1, "small") for at in range(12)] + [
    job(f"long{at}", 0, 600, 1, "small") for at in range(4)
]
WHOLE = [job(f"whole{at}", 20, 60, 8, "whole") for at in range(4)]


def test_a_team_that_needs_whole_nodes_waits_under_quotas_and_not_under_hived() -> None:
    config = generated(4, {"small": 1, "whole": 1})
    found = find_anomaly(config, [trace(*SMALL, *WHOLE)], Rules(round_ms=1))
    small, whole = found.vcs
    # In a cluster of its own: two at once, the other two an hour later.
    assert whole.delay_s["private"].mean == 30 * 60
    assert whole.delay_s["hived"].mean == 30 * 60
    assert whole.delay_s["quota-spread"].mean > 4 * 30 * 60
    assert small.delay_s["hived"] == small.delay_s["private"]
    assert found.anomalies("quota-spread") == ("whole",)
    assert found.anomalies("hived") == ()
    assert found.as_dict()["anomalies"] == {"quota": [], "quota-spread": ["whole"], "hived": []}


@pytest.mark.slow
def test_the_default_case_shows_it_even_when_small() -> None:
    config, traces = default_case(replace(DEFAULT, jobs=1200, days=2.0), seeds=1)
    found = find_anomaly(config, traces)
    assert "vc02" in found.anomalies("quota-spread")
    assert found.anomalies("hived") == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "policy"),
    [
        (0, "hived"),
        pytest.param(1, "hived", marks=pytest.mark.full),
        pytest.param(2, "hived", marks=pytest.mark.full),
        (3, "hived-shortest"),
    ],
)
def test_a_team_waits_exactly_as_long_as_in_its_private_cluster(seed: int, policy: str) -> None:
    spec = SyntheticSpec(1_200, 1.5, seed, load=1.1, vcs=4)
    config = generated(26, spec.shares())
    trace = generate(spec, quotas_of(config))
    shared = simulate(config, trace, "shared", policy).vc_delays_ms
    assert max(max(delays) for delays in shared.values()) > 6 * HOUR_MS
    for name, delays in shared.items():
        alone = simulate(private_config(config, name), trace.of(name), "private", policy)
        assert alone.vc_delays_ms[name] == delays
