"""Every measurement, one after the other, as one JSON document: what was measured, the bar, and whether it holds.

`python -m bench` takes a few minutes; `python -m bench --only idle,drain` takes fewer. Each can also be run alone:
`python -m bench.throughput --help`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from bench.server import answer


@dataclass(frozen=True)
class Bar:
    """A figure in a measurement's answer, and where it has to be."""

    figure: str
    at_least: float | None = None
    at_most: float | None = None

    def judge(self, figures: dict[str, Any]) -> dict[str, Any]:
        """Return the figure beside its bar."""
        value = figures[self.figure]
        holds = (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)
        bar = f">= {self.at_least:g}" if self.at_least is not None else f"<= {self.at_most:g}"
        return {"figure": self.figure, "measured": value, "bar": bar, "holds": holds}


MEASUREMENTS: dict[str, tuple[tuple[str, ...], tuple[Bar, ...]]] = {
    "diagnosis": (("diagnosis",), (Bar("processor_s", at_most=2),)),
    "throughput": (
        ("throughput", "--jobs", "2000", "--backend", "process"),
        (Bar("jobs_per_s", at_least=200),),
    ),
    "submissions": (
        ("throughput", "--jobs", "3000", "--backend", "simulated"),
        (Bar("submissions_per_s", at_least=300), Bar("submission_p99_ms", at_most=100)),
    ),
    "drain": (("drain",), (Bar("drained_per_s", at_least=500),)),
    "first_log": (("first_log",), (Bar("p95_ms", at_most=1000),)),
    "runtime": (("runtime",), (Bar("overhead_ms", at_most=15),)),
    "lemons": (
        ("lemons", "--only", "ordinary"),
        (Bar("avoided_percent", at_least=80), Bar("good_nodes_drained", at_most=0)),
    ),
    "hangs": (("hangs",), (Bar("named_after_timeout_s", at_most=15),)),
    "shells": (("shells",), (Bar("worst_p95_ms", at_most=30), Bar("all_pasted", at_least=1))),
    "task_use": (("task_use",), (Bar("core_percent_of_100_tasks", at_most=1),)),
    "logs": (("logs",), (Bar("worst_p95_ms", at_most=300), Bar("search_worst_s", at_most=2))),
    "followed_logs": (("followed_logs",), (Bar("memory_mb", at_most=300), Bar("max_wait_s", at_most=1))),
    "api": (
        ("api", "--jobs", "100000", "--times", "5", "--seconds", "10"),
        (
            Bar("first_page_p95_ms", at_most=100),
            Bar("worst_p95_ms", at_most=300),
            Bar("page_kb", at_most=200),
            Bar("mix_p99_ms", at_most=200),
        ),
    ),
    "gang": (
        ("gang",),
        (
            Bar("peak_memory_mb", at_most=400),
            Bar("slowest_answer_s", at_most=1),
            Bar("launched_s", at_most=15),
            Bar("ended_s", at_most=10),
        ),
    ),
    "trickle": (("gang", "--shape", "trickle"), (Bar("cpu_ms_per_task", at_most=10),)),
    "simulate": (("simulate",), (Bar("replay_s", at_most=60),)),
    "kubernetes": (
        ("kubernetes_jobs",),
        (
            Bar("created_of_bare", at_least=0.85),
            Bar("created_per_s", at_least=300),
            Bar("claims_per_s", at_least=100),
            Bar("requeued_s", at_most=35),
            Bar("scale_memory_mb", at_most=250),
            Bar("decision_p99_ms", at_most=50),
            Bar("arrived_to_decision_p99_ms", at_most=50),
            Bar("cold_decision_s", at_most=4),
        ),
    ),
    "monitoring": (
        ("monitoring",),
        (
            Bar("hour_core_percent", at_most=2),
            Bar("hour_memory_mb", at_most=60),
            Bar("hour_bytes_per_sample", at_most=1),
            Bar("hour_file_bytes_per_sample", at_most=1),
            Bar("hour_slowest_chart_ms", at_most=50),
            Bar("day_slowest_chart_ms", at_most=50),
            Bar("gpus_core_percent", at_most=0.5),
        ),
    ),
    "idleness": (
        ("idleness",),
        (
            Bar("wrong_stops", at_most=0),
            Bar("idle_found_percent", at_least=95),
            Bar("rules_processor_s", at_most=1),
        ),
    ),
    "portal": (
        ("portal",),
        (
            Bar("first_paint_ms", at_most=600),
            Bar("interactive_ms", at_most=1200),
            Bar("initial_script_kb", at_most=240),
            Bar("css_kb", at_most=40),
            Bar("largest_chunk_kb", at_most=120),
            Bar("jump_p95_ms", at_most=500),
            Bar("change_p95_ms", at_most=400),
            Bar("tabs_change_p95_ms", at_most=400),
            Bar("tabs_streams", at_most=1),
            Bar("line_p95_ms", at_most=300),
            Bar("log_tab_mb", at_most=150),
        ),
    ),
    "idle": (("idle",), (Bar("memory_mb", at_most=150), Bar("core_percent", at_most=1))),
}


def measure(name: str) -> dict[str, Any]:
    """Run one measurement in a process of its own."""
    command, bars = MEASUREMENTS[name]
    print(f"measuring {name} ...", file=sys.stderr)
    done = subprocess.run([sys.executable, "-m", f"bench.{command[0]}", *command[1:]], capture_output=True, text=True)
    if done.returncode != 0:
        return {"command": " ".join(command), "error": done.stderr[-2000:]}
    figures = json.loads(done.stdout)
    return {"command": " ".join(command), "figures": figures, "bars": [bar.judge(figures) for bar in bars]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(MEASUREMENTS), help="comma list of measurements")
    chosen = parser.parse_args().only.split(",")
    load = os.getloadavg()[0]
    answer(cores=len(os.sched_getaffinity(0)), load_before=round(load, 2), results={n: measure(n) for n in chosen})
