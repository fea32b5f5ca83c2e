"""Made traces are what was asked for, and the same for the same seed."""

from __future__ import annotations

from collections import Counter

import pytest

from openpai.protocol.errors import Refused
from openpai.simulator.synthetic import DAY_MS, HOUR_MS, SyntheticSpec, generate

QUOTAS = {"a": 512, "b": 256, "c": 64}


def test_a_seed_is_a_trace() -> None:
    spec = SyntheticSpec(jobs=500, days=3, opportunistic=0.2)
    assert generate(spec, QUOTAS) == generate(spec, QUOTAS)
    assert generate(spec, QUOTAS) != generate(SyntheticSpec(jobs=500, days=3, opportunistic=0.2, seed=2), QUOTAS)


def test_a_trace_has_its_size_its_load_and_its_rhythm() -> None:
    found = generate(SyntheticSpec(jobs=8000, days=14, load=0.6, opportunistic=0.25), QUOTAS)
    assert len(found.jobs) == len({job.id for job in found.jobs}) == 8000
    assert 13 * DAY_MS < found.span_ms < 15 * DAY_MS
    for name, asked in found.demand().items():
        assert 0.4 < asked / (QUOTAS[name] * 14 * DAY_MS) < 0.8
    assert 0.2 < sum(job.priority < 0 for job in found.jobs) / 8000 < 0.3
    by_hour = Counter(job.submitted_ms // HOUR_MS % 24 for job in found.jobs)
    assert by_hour[15] > 2 * by_hour[3]


def test_run_times_have_a_heavy_tail_and_sizes_are_powers_of_two() -> None:
    found = generate(SyntheticSpec(jobs=8000, days=14), QUOTAS)
    times = sorted(job.run_ms for job in found.jobs)
    assert sum(times) / len(times) > 3 * times[len(times) // 2]
    sizes = Counter(job.gpus for job in found.jobs)
    assert set(sizes) == {1, 2, 4, 8, 16, 32, 64}
    assert sizes[1] > 8000 / 2
    assert max(job.gpus for job in found.jobs if job.virtual_cluster == "c") == 32


def test_virtual_clusters_can_lie_apart_in_size() -> None:
    found = generate(SyntheticSpec(jobs=3000, days=3, apart=3), QUOTAS)
    mean = {name: sum(job.gpus for job in found.of(name).jobs) / len(found.of(name).jobs) for name in QUOTAS}
    assert mean["b"] > 20 * max(mean["a"], mean["c"])


@pytest.mark.parametrize(
    "text", ["jobs=no", "colour=red", "jobs=0", "days=-1", "load=nan", "opportunistic=2", "vcs=0", "apart=-1"]
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="--synthetic"):
        SyntheticSpec.parse(text)


def test_what_is_not_said_stays_as_it_is() -> None:
    assert SyntheticSpec.parse("jobs=5, days=0.5") == SyntheticSpec(jobs=5, days=0.5)
