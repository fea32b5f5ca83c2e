"""Tables fit a terminal, plots are well-formed, and nothing in a name can break either."""

from __future__ import annotations

import io
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from openpai.simulator.anomaly import find_anomaly
from openpai.simulator.cluster import quotas_of
from openpai.simulator.plots import write_plots
from openpai.simulator.report import Report
from openpai.simulator.simulate import simulate
from openpai.simulator.synthetic import SyntheticSpec, generate
from openpai.simulator.tables import (
    anomaly_sentences,
    anomaly_table,
    comparison_tables,
    report_sentences,
    report_tables,
    span,
)
from tests.unit.simulator.clusters import cluster, job, trace

ODD = "[bold]<b>&a team with a very long name"


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    """Return replays in which everything that reports show happens."""
    config = cluster(8, **{ODD: 2, "b": 1})
    made = generate(SyntheticSpec(jobs=400, days=40, opportunistic=0.4), quotas_of(config))
    jobs = trace(*made.jobs, job("giant", 0, 1, 4096, "b"))
    return [simulate(config, jobs, f"{way} <&>", way) for way in ("hived", "quota-spread", "quota")]


def drawn(*things: object) -> str:
    """Return what a terminal of 80 columns shows."""
    out = io.StringIO()
    console = Console(file=out, width=80)
    for thing in things:
        console.print(thing)
    return out.getvalue()


def test_tables_fit_80_columns_and_lose_no_number(reports: list[Report]) -> None:
    for report in reports:
        shown = drawn(*report_tables(report))
        assert max(len(line) for line in shown.splitlines()) <= 80
        assert "[bold]<b>&a tea" in shown
        for line in shown.splitlines():
            assert line.count("…") <= line.startswith("[bold]<b>")
        total = next(line for line in shown.splitlines() if line.startswith("all"))
        assert total.split()[1:3] == ["64", "401"]


def test_a_comparison_numbers_its_columns(reports: list[Report]) -> None:
    shown = drawn(*comparison_tables(reports * 4))
    assert max(len(line) for line in shown.splitlines()) <= 80
    assert "12: quota" in shown
    assert shown.count("Mean wait") == 2


def test_sentences_say_what_tables_do_not(reports: list[Report]) -> None:
    message = " ".join(report_sentences(reports[0]))
    assert "401 jobs" in message
    assert "1 job can never run here" in message


def test_a_report_is_json(reports: list[Report]) -> None:
    found = json.loads(json.dumps(reports[0].as_dict()))
    assert found["total"]["jobs"] == 401
    assert len(found["used_series"]) == len(found["waiting_series"]) == 240
    assert sum(found["used_series"]) / len(found["used_series"]) == pytest.approx(found["total"]["gpus_used"], abs=0.1)


def test_plots_are_well_formed_and_hold_every_line(reports: list[Report], tmp_path: Path) -> None:
    written = write_plots(reports, tmp_path / "made" / "here")
    assert len(written) == 3 + len(reports)
    for path in written:
        root = ET.fromstring(path.read_text())
        lines = root.findall("{*}polyline")
        assert len(lines) == (2 if path.name.startswith("virtual") else len(reports))
        for line in lines:
            points = [tuple(map(float, point.split(","))) for point in line.get("points", "").split()]
            assert len(points) > 50
            assert all(62 <= x <= 680 and 39 <= y <= 315 for x, y in points)


def test_an_anomaly_is_marked_and_described() -> None:
    jobs = [job(f"s{at}", 0, 600 if at < 4 else 10, 1, "b") for at in range(16)]
    jobs += [job(f"w{at}", 20, 60, 8, "a") for at in range(4)]
    found = find_anomaly(cluster(4, a=1, b=1), [trace(*jobs)])
    row = next(line for line in drawn(anomaly_table(found)).splitlines() if line.startswith("a "))
    assert row.count("!") == 1
    message = anomaly_sentences(found)
    assert message[0].startswith("With quotas on packed nodes, no job")
    assert message[1].startswith("With quotas on spread nodes, a waited longer")
    assert message[2].startswith("Under HiveD, no job")


@pytest.mark.parametrize(
    ("seconds", "message"),
    [(0, "0s"), (0.5, "0.5s"), (9.97, "10s"), (59, "59s"), (599, "10m"), (3600, "1.0h"), (86400, "24h"), (3e6, "35d")],
)
def test_spans_are_short(seconds: float, message: str) -> None:
    assert span(seconds) == message
