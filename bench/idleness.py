"""Two promises about alerts: idle GPUs are found on a labelled set, and a thousand rules are evaluated in a second.

    python -m bench.idleness

The set is made of phases with the signs of such jobs: loading data, compiling, evaluating, training, an idle notebook,
and deadlocks, each with noise and with sensors missing. Found means within 30 minutes of the beginning of rest.
"""

from __future__ import annotations

import random
import time
from collections import Counter

from bench.server import answer
from openpai.alerts.evaluating import evaluate
from openpai.alerts.expressions import parse, selectors
from openpai.alerts.rules import Rule
from openpai.alerts.series import as_labels, matching
from openpai.alerts.states import step
from openpai.lifecycle.idleness import Gpu, Rest, Sign, Verdict, judge, rested
from openpai.lifecycle.model import AttemptKey

KEY = AttemptKey("j", 0, "w", 0, 0)
WORK = ("training", "loading", "compiling", "evaluating", "pauses")
IDLE = ("notebook", "forgotten", "sleep")
DEADLOCK = ("collective", "step")
LIMIT_S, JOBS = 1800, 60


def signs(kind: str, chance: random.Random, minutes: int) -> list[Sign]:
    """Return what a job of a kind shows, every 15 seconds."""
    idle_w, limit_w = chance.uniform(40, 90), chance.choice((300.0, 400.0, 700.0))
    has_power, has_tensor = chance.random() > 0.2, chance.random() > 0.3
    cpu = io = logs = 0.0
    found = []
    for at in range(minutes * 4):
        is_rest = at >= 40 and kind in (*IDLE, *DEADLOCK)
        busy, tensor, power, step_ = 0.0, 0.0, idle_w * chance.uniform(1, 1.05), None
        if not is_rest:
            part = (at // 20) % 2 if kind in ("loading", "evaluating", "pauses") else 0
            if kind == "compiling":
                cpu += 15
            elif part:
                cpu, io = cpu + 8, io + 5e7
            else:
                busy, tensor, power, cpu = 90, chance.uniform(5, 60), limit_w * chance.uniform(0.4, 0.95), cpu + 12
                logs += 100 if chance.random() < 0.5 else 0
        elif kind == "collective":
            busy, power = 100, idle_w * chance.uniform(1.6, 2.2)
        elif kind == "notebook":
            cpu, io = cpu + chance.uniform(0, 0.2), io + chance.uniform(0, 40_000)
        if kind == "step":
            step_ = float(min(at, 40))
        gpu = Gpu(busy, tensor if has_tensor else None, power if has_power else None, limit_w if has_power else None)
        found.append(Sign(at * 15_000, (gpu,), cpu, int(io), step_, log_bytes=int(logs)))
    return found


def verdicts() -> tuple[int, int, int, Counter[str]]:
    """Return wrong stops, idle jobs, idle jobs found in time, and what deadlocks were called."""
    chance, wrong, idle, found = random.Random(14), 0, 0, 0
    deadlocks: Counter[str] = Counter()
    for kind in (*WORK, *IDLE, *DEADLOCK):
        for _ in range(JOBS):
            rest: Rest | None = None
            longest, in_time, last = 0.0, False, Verdict.WORKS
            for at, sign in enumerate(signs(kind, chance, 60)):
                rest = rested(rest, sign)
                last, seconds = judge({KEY: rest}, [KEY])
                if last is Verdict.IDLE:
                    longest = max(longest, seconds)
                    in_time |= seconds >= LIMIT_S - 120 and at - 40 <= LIMIT_S / 15
            wrong += kind not in IDLE and longest >= LIMIT_S - 120
            idle += kind in IDLE
            found += kind in IDLE and in_time
            if kind in DEADLOCK:
                deadlocks[last.value] += 1
    return wrong, idle, found, deadlocks


def rules() -> float:
    """Return the processor time of one evaluation of 1,000 rules over 12,000 series."""
    metrics = {
        f"m{number}": {as_labels({"node": f"n{each % 20}", "task": str(each)}): float(each) for each in range(300)}
        for number in range(40)
    }
    made = [
        Rule(f"r{number}", text, parse(text), for_ms=300_000)
        for number in range(1000)
        for text in [f"m{number % 40} / (1 + m{(number + 1) % 40}) * 100 > 99 and m{number % 40} > 280"]
    ]
    data = {one: matching(metrics[one.name], one.matchers) for rule in made for one in selectors(rule.condition)}
    began_s = time.process_time()
    for rule in made:
        step(rule, evaluate(rule.condition, data).vector, (), 0, 0)
    return time.process_time() - began_s


def main() -> None:
    """Print both."""
    wrong, idle, found, deadlocks = verdicts()
    answer(
        wrong_stops=wrong,
        idle_found_percent=round(100 * found / idle, 1),
        deadlocks=dict(deadlocks),
        rules_processor_s=round(rules(), 3),
    )


if __name__ == "__main__":
    main()
