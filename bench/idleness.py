"""Two promises about alerts: idle GPUs are found on a labelled set, and a thousand rules are evaluated in a second.

    python -m bench.idleness [--jobs 60] [--rules 1000]

The set is made of phases with the signs of such jobs: loading data, compiling, evaluating, training, an idle notebook,
and deadlocks, each with noise and with sensors missing. Others are what an enemy of the rule would think of: notebooks
with a cell that runs every few minutes, a minute of GPUs after ten of rest, hours of work on processors, power that
stays high after use, kernels that keep a GPU busy and do nothing. Slices of GPUs (MIG) have no power of their own, and
half of the cards do not measure their activity either: those are known by memory. Found means within 30 minutes of the
beginning of rest.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from dataclasses import dataclass

from bench.server import answer
from openpai.alerts.evaluating import evaluate
from openpai.alerts.expressions import parse, selectors
from openpai.alerts.rules import Rule
from openpai.alerts.series import as_labels, matching
from openpai.alerts.states import step
from openpai.lifecycle.idleness import Gpu, Rest, Sign, Verdict, judge, rested
from openpai.lifecycle.model import AttemptKey

KEY = AttemptKey("j", 0, "w", 0, 0)
WORK = (
    "training",
    "loading",
    "compiling",
    "evaluating",
    "pauses",
    "bursts",
    "processors",
    "phases",
    "spinning",
    "polling",
    "slice-training",
    "slice-kernels",
)
IDLE = ("notebook", "forgotten", "sleep", "cron", "heartbeat", "warm", "slice", "slice-notebook")
DEADLOCK = ("collective", "step")
LIMIT_S = 1800


@dataclass(slots=True)
class Moment:
    """What a job does within 15 seconds."""

    busy: float = 0.0
    tensor: float = 0.0
    power_w: float = 0.0
    cpu_s: float = 0.0
    io_bytes: float = 0.0
    log_bytes: float = 0.0


def signs(kind: str, chance: random.Random, minutes: int) -> list[Sign]:
    """Return what a job of a kind shows, every 15 seconds."""
    idle_w, limit_w = chance.uniform(40, 90), chance.choice((300.0, 400.0, 700.0))
    has_power, has_tensor = chance.random() > 0.2, chance.random() > 0.3
    knows_slices = chance.random() < 0.5
    cpu = io = logs = 0.0
    found = []
    for at in range(minutes * 4):
        is_rest = at >= 40 and kind in (*IDLE, *DEADLOCK)
        now = Moment(power_w=idle_w * chance.uniform(1, 1.05))
        (_at_rest if is_rest else _at_work)(now, kind, at, chance, limit_w)
        cpu, io, logs = cpu + now.cpu_s, io + now.io_bytes, logs + now.log_bytes
        tensor, power = now.tensor if has_tensor else None, now.power_w if has_power else None
        gpu = Gpu(now.busy, tensor, power, limit_w if has_power else None)
        if kind.startswith("slice"):
            activity = (now.busy, now.tensor) if knows_slices else (None, None)
            gpu = Gpu(*activity, memory_bytes=20 << 30, is_slice=True)
        step_ = float(min(at, 40)) if kind == "step" else None
        found.append(Sign(at * 15_000, (gpu,), cpu, int(io), step_, log_bytes=int(logs)))
    return found


def _at_work(now: Moment, kind: str, at: int, chance: random.Random, limit_w: float) -> None:
    late = at >= 40
    if kind == "compiling" or (late and kind == "processors") or (kind == "phases" and 40 <= at < 160):
        now.cpu_s = 15 * chance.uniform(0.3, 1)
    elif kind == "slice-kernels" and late:
        # Its kernels run for minutes, and a processor sleeps until they end: only a line now and then shows it.
        now.busy, now.cpu_s, now.log_bytes = 90, 0.2, 80 if at % 40 == 0 else 0
    elif kind == "spinning" and late:
        now.busy, now.power_w, now.cpu_s = 100, now.power_w * chance.uniform(1.1, 1.6), 15
    elif kind == "bursts" and at % 44 >= 4:
        now.io_bytes = chance.uniform(0, 40_000)
    elif kind == "polling" and late:
        # Hardly a processor, but data comes in all the time.
        now.cpu_s, now.io_bytes = 0.3, 15 * 60_000
    elif kind in ("loading", "evaluating", "pauses") and (at // 20) % 2:
        now.cpu_s, now.io_bytes = 8, 5e7
    else:
        now.busy, now.tensor, now.power_w = 90, chance.uniform(5, 60), limit_w * chance.uniform(0.4, 0.95)
        now.cpu_s, now.log_bytes = 12, 100 if chance.random() < 0.5 else 0


def _at_rest(now: Moment, kind: str, at: int, chance: random.Random, limit_w: float) -> None:
    if kind == "collective":
        now.busy, now.power_w = 100, now.power_w * chance.uniform(1.6, 2.2)
    elif kind == "cron" and at % chance.choice((38, 40, 44)) == 0:
        now.cpu_s, now.io_bytes, now.log_bytes = 10, 5e6, 80
    elif kind == "heartbeat" and at % 24 == 0:
        now.log_bytes = 60
    elif kind == "warm":
        now.power_w *= 1.7
    elif kind in ("notebook", "slice-notebook"):
        now.cpu_s, now.io_bytes = chance.uniform(0, 0.2), chance.uniform(0, 40_000)


def verdicts(jobs: int) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Return of so many jobs of each kind: those stopped wrongly, idle ones found, and what deadlocks were called."""
    chance = random.Random(14)
    wrong, found, deadlocks = Counter[str](), Counter[str](), Counter[str]()
    for kind in (*WORK, *IDLE, *DEADLOCK):
        for _ in range(jobs):
            rest: Rest | None = None
            longest, in_time, last = 0.0, False, Verdict.WORKS
            for at, sign in enumerate(signs(kind, chance, 60)):
                rest = rested(rest, sign)
                last, seconds = judge({KEY: rest}, [KEY])
                if last is Verdict.IDLE:
                    longest = max(longest, seconds)
                    in_time |= seconds >= LIMIT_S - 120 and at - 40 <= LIMIT_S / 15
            wrong[kind] += kind in (*WORK, *DEADLOCK) and longest >= LIMIT_S - 120
            found[kind] += kind in IDLE and in_time
            if kind in DEADLOCK:
                deadlocks[last.value] += 1
    return +wrong, +found, deadlocks


def rules(number_of: int) -> float:
    """Return the processor time of one evaluation of so many rules over 12,000 series."""
    metrics = {
        f"m{number}": {as_labels({"node": f"n{each % 20}", "task": str(each)}): float(each) for each in range(300)}
        for number in range(40)
    }
    made = [
        Rule(f"r{number}", text, parse(text), for_ms=300_000)
        for number in range(number_of)
        for text in [f"m{number % 40} / (1 + m{(number + 1) % 40}) * 100 > 99 and m{number % 40} > 280"]
    ]
    data = {one: matching(metrics[one.name], one.matchers) for rule in made for one in selectors(rule.condition)}
    began_s = time.process_time()
    for rule in made:
        step(rule, evaluate(rule.condition, data).vector, (), 0, 0)
    return time.process_time() - began_s


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=60, help="jobs of each kind")
    parser.add_argument("--rules", type=int, default=1000, help="rules that are evaluated")
    options = parser.parse_args()
    jobs = options.jobs
    wrong, found, deadlocks = verdicts(jobs)
    answer(
        wrong_stops=dict(wrong),
        idle_found_percent=round(100 * sum(found[kind] for kind in IDLE) / (jobs * len(IDLE)), 1),
        idle_found={kind: f"{found[kind]} of {jobs}" for kind in IDLE},
        deadlocks=dict(deadlocks),
        rules_processor_s=round(rules(options.rules), 3),
    )


if __name__ == "__main__":
    main()
