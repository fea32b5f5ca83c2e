#!/usr/bin/env python3
"""Replays two months of a large cluster in virtual time and prints how long that took, as one JSON object.

    python -m bench.simulate [--jobs 100000 --days 60 --nodes 279 --scheduler hived --opportunistic 0 --seed 1]

The trace is made, not read, so that anyone can repeat it. `replay_s` is the time of the replay
alone; the bar is 60 s.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from time import perf_counter, process_time

from openpai.simulator.cluster import generated, quotas_of
from openpai.simulator.simulate import SCHEDULERS, simulate
from openpai.simulator.synthetic import SyntheticSpec, generate


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--days", type=float, default=60.0)
    parser.add_argument("--nodes", type=int, default=279)
    parser.add_argument("--load", type=float, default=0.75)
    parser.add_argument("--opportunistic", type=float, default=0.0)
    parser.add_argument("--scheduler", default="hived", choices=SCHEDULERS)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    spec = SyntheticSpec(given.jobs, given.days, given.seed, given.load, given.opportunistic)
    config = generated(given.nodes, spec.shares())
    began = perf_counter()
    trace = generate(spec, quotas_of(config))
    generate_s = perf_counter() - began
    began_cpu = process_time()
    report = simulate(config, trace, "bench", given.scheduler)
    answer = {
        "scheduler": given.scheduler,
        "gpus": report.total.gpus,
        "jobs": report.total.jobs,
        "days": report.days,
        "opportunistic": given.opportunistic,
        "generate_s": round(generate_s, 2),
        "replay_s": report.wall_s,
        "replay_cpu_s": round(process_time() - began_cpu, 2),
        "jobs_per_s": round(report.total.jobs / report.wall_s),
        "decisions": report.decisions,
        "never_started": report.total.never_started,
        "waiting_mean": report.total.waiting,
        "waiting_peak": max(report.waiting_series),
        "utilisation": report.total.utilisation,
        "delay_mean_s": report.total.delay_s.mean,
        "preemptions": report.total.preemptions,
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }
    json.dump(answer, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
