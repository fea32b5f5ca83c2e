"""The benchmark replays a trace and prints one JSON object."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

from openpai.simulator.synthetic import SyntheticSpec, generate
from openpai.simulator.trace import perturbed

BENCH = Path(__file__).parents[3] / "bench" / "simulate.py"


def test_the_benchmark_counts_every_job(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [str(BENCH), "--jobs", "300", "--days", "2", "--nodes", "16"])
    runpy.run_path(str(BENCH), run_name="__main__")
    found = json.loads(capsys.readouterr().out)
    assert (found["jobs"], found["gpus"], found["decisions"]) == (300, 128, 300)
    assert found["replay_s"] > 0
    assert 0.1 < found["utilisation"] <= 1


TRACES = BENCH.with_name("traces.py")


def test_every_way_of_sharing_is_measured_on_the_same_jobs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = [
        "job,vc,submitted_s,run_s,gpus",
        "big,a,0,7200,16",
        "wide,a,60,3600,16",
        "small,a,120,600,1",
        "own,b,0,7200,8",
    ]
    (tmp_path / "jobs.csv").write_text("\n".join(rows))
    monkeypatch.setattr(sys, "argv", [str(TRACES), "--trace", str(tmp_path / "jobs.csv"), "--nodes", "3", "--json"])
    runpy.run_path(str(TRACES), run_name="__main__")
    found = {row["way"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert {"private", "quota", "first-fit", "hived", "hived, first-fit"} <= set(found)
    for row in found.values():
        assert row["jobs"] == 4
        assert row["gpu_hours_lost"] == 0
        assert row["by_size_h"]["16+"] == pytest.approx((7200 - 60) / 3600 / 2, abs=0.02)
    assert found["hived"]["worst_ratio"] == 1
    assert found["private"]["in_use"] == found["hived"]["in_use"] > 0.5


def test_the_table_has_a_line_for_each_way(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made = ["--synthetic", "jobs=50,days=2", "--nodes", "16", "--ways", "private;hived"]
    monkeypatch.setattr(sys, "argv", [str(TRACES), *made])
    runpy.run_path(str(TRACES), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("50 jobs in")
    assert [line.split()[0] for line in lines[1:]] == ["WAY", "private", "hived"]


def test_a_perturbed_copy_differs_a_little_and_is_the_same_for_a_seed() -> None:
    trace = generate(SyntheticSpec(jobs=200, days=2, seed=3), {"a": 64})
    copy = perturbed(trace, 1)
    assert copy == perturbed(trace, 1) != perturbed(trace, 2)
    found = {job.id: job for job in copy.jobs}
    starts = {job.id: found[job.id].submitted_ms - job.submitted_ms for job in trace.jobs}
    assert 60_000 < max(starts.values()) - min(starts.values()) <= 2 * 60_000
    for job in trace.jobs:
        assert found[job.id].run_ms == pytest.approx(job.run_ms, rel=0.02, abs=1)
        assert (found[job.id].gpus, found[job.id].user) == (job.gpus, job.user)
    assert any(found[job.id].run_ms != job.run_ms for job in trace.jobs)
    assert [job.submitted_ms for job in copy.jobs] == sorted(job.submitted_ms for job in copy.jobs)


def test_the_bench_replays_a_perturbed_copy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for options in ([], ["--perturb", "1"], ["--perturb", "1"]):
        made = ["--synthetic", "jobs=80,days=1,load=4", "--nodes", "12", "--ways", "hived", "--json", *options]
        monkeypatch.setattr(sys, "argv", [str(TRACES), *made])
        runpy.run_path(str(TRACES), run_name="__main__")
        document = json.loads(capsys.readouterr().out)
        found.append(document["rows"][0] | {"replay_cpu_s": 0})
        assert document["perturbed"] == (1 if options else None)
    assert found[0] != found[1] == found[2]
