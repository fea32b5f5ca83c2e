"""What it costs to measure tasks: processor time of the measuring, as a share of a core per 100 tasks.

`python -m bench.task_use --tasks 100` starts so many tasks of three processes each on the process backend, and measures
them as the server does, every five seconds. The bar: less than 1 % of a core.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import time
from typing import Final

from bench.server import answer
from openpai.backends.host.task_use import Measuring, Place
from openpai.lifecycle.model import AttemptKey
from openpai.orchestrator.measuring import PERIOD_S, TaskMeasures

_SCRIPT: Final = "sleep 600 & sleep 600 & wait"


def measure(tasks: int, rounds: int) -> None:
    """Measure, and print the figures."""
    running = [subprocess.Popen(["/bin/sh", "-c", _SCRIPT], start_new_session=True) for _ in range(tasks)]
    try:
        time.sleep(1)
        places = [
            Place(AttemptKey("a" * 32, 0, "worker", number, 0), session=process.pid)
            for number, process in enumerate(running)
        ]
        measuring, measures = Measuring(), TaskMeasures()
        found = measuring.measure(places, 0)
        if len(found) != tasks or any(sample.processes != 3 for sample in found):
            raise RuntimeError(f"{len(found)} of {tasks} tasks were measured")
        before_s = time.process_time()
        for number in range(1, rounds + 1):
            measures.learn(measuring.measure(places, number * 1000))
        round_s = (time.process_time() - before_s) / rounds
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    share = round_s / PERIOD_S * 100
    answer(tasks=tasks, round_ms=round(round_s * 1000, 2), core_percent_of_100_tasks=round(share * 100 / tasks, 3))


def main() -> None:
    """Measure with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    measure(options.tasks, options.rounds)


if __name__ == "__main__":
    main()
