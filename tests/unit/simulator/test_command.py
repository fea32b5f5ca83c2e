"""`pai simulate` from the command line: what is said, to people and to programs, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from openpai.app.main import run
from openpai.cli import output
from openpai.simulator.cluster import generated
from openpai.simulator.formats import read_trace

JOBS = "job,vc,submitted_s,run_s,gpus\n" + "".join(f"j{at},{'ab'[at % 2]},{at * 60},3600,8\n" for at in range(12))


@pytest.fixture
def pai(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return a way to call the command: exit code, standard output, standard error."""
    monkeypatch.setenv("COLUMNS", "80")
    output.console.cache_clear()
    output.error_console.cache_clear()

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pai", "simulate", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            run()
        out, err = capsys.readouterr()
        return int(str(ended.value.code)), out, err

    yield call
    output.console.cache_clear()
    output.error_console.cache_clear()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Return a trace and a configuration."""
    jobs, config = tmp_path / "jobs.csv", tmp_path / "shared.yaml"
    jobs.write_text(JOBS)
    config.write_text(generated(4, {"a": 1, "b": 1}).text)
    return jobs, config


def test_a_replay_is_reported_in_tables(pai: Any, files: tuple[Path, Path]) -> None:
    code, out, _ = pai("--trace", files[0], "--config", files[1])
    assert code == 0
    assert "shared: how long jobs waited (hived)" in out
    assert "12 jobs over 0.1 days" in out
    assert max(len(line) for line in out.splitlines()) <= 80


def test_configurations_are_compared_side_by_side(pai: Any, files: tuple[Path, Path], tmp_path: Path) -> None:
    jobs, config = files
    plots = tmp_path / "plots"
    code, out, _ = pai(
        "--trace", jobs, "--config", config, "--what-if", "a=+8", "--scheduler", "hived", "--scheduler", "quota",
        "--json", "--plot", plots,
    )  # fmt: skip
    assert code == 0
    found = json.loads(out)
    names = [report["name"] for report in found["reports"]]
    assert names == ["shared, hived", "shared, hived, a=+8", "shared, quota", "shared, quota, a=+8"]
    waits = [report["vcs"][0]["delay_s"]["mean"] for report in found["reports"]]
    assert waits[1] < waits[0]
    assert len(found["plots"]) == len(list(plots.iterdir())) == 7


def test_a_trace_is_made_written_and_read_again(pai: Any, tmp_path: Path) -> None:
    written = tmp_path / "made.csv"
    code, first, _ = pai("--synthetic", "jobs=50,days=1,vcs=2", "--nodes", "8", "--json", "--write-trace", written)
    assert code == 0
    assert len(read_trace(written.read_text()).jobs) == 50
    code, second, _ = pai("--trace", written, "--nodes", "8", "--json")
    assert code == 0
    assert [json.loads(text)["reports"][0]["total"]["jobs"] for text in (first, second)] == [50, 50]


def test_strangers_are_matched_or_refused(pai: Any, files: tuple[Path, Path], tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(generated(4, {"vision": 1}).text)
    code, out, _ = pai("--trace", files[0], "--config", other, "--json")
    assert (code, json.loads(out)["reports"][0]["total"]["refused"]) == (0, 12)
    code, out, _ = pai("--trace", files[0], "--config", other, "--json", "--match-vcs")
    assert (code, json.loads(out)["reports"][0]["total"]["refused"]) == (0, 0)


def test_the_experiment_runs_on_a_trace_of_ones_own(pai: Any, files: tuple[Path, Path]) -> None:
    code, out, _ = pai("--experiment", "anomaly", "--trace", files[0], "--config", files[1], "--json")
    assert code == 0
    found = json.loads(out)
    assert [vc["name"] for vc in found["vcs"]] == ["a", "b"]
    assert found["vcs"][0]["delay_s"]["hived"] == found["vcs"][0]["delay_s"]["private"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either a trace to replay"),
        (["--trace", "x", "--synthetic", "jobs=1"], "give either a trace to replay"),
        (["--trace", "nowhere.csv"], "'nowhere.csv' cannot be read: No such file or directory"),
        (["--synthetic", "jobs=9", "--config", "nowhere.yaml"], "'nowhere.yaml' cannot be read"),
        (["--synthetic", "jobs=9", "--nodes", "4", "--scheduler", "x"], "no scheduler is called 'x'"),
        (
            ["--synthetic", "jobs=9", "--nodes", "4", "--what-if", "q=8"],
            "--what-if: the configuration has no virtual cluster 'q'",
        ),
        (["--synthetic", "jobs=9", "--nodes", "4", "--plot", "/dev/null/x"], "cannot write plots into /dev/null/x"),
        (["--experiment", "luck"], "no experiment is called 'luck'"),
    ],
)
def test_what_makes_no_sense_is_refused(pai: Any, arguments: list[str], message: str) -> None:
    code, out, err = pai(*arguments)
    assert code != 0
    assert message in err
    assert not out
