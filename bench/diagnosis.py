"""Diagnosis of a gang of 64 tasks whose logs have 100 MB each: read from files and compared, as a server does.

One task raised an exception; the others lost their connection to it a little later. Prints the time of the
clock and of the processor, and fails unless the root is found. On a busy machine only the latter says something.

With --holdout it measures how many failures that the rules were not written from are diagnosed rightly: those written
from documentation and sources, and those that people reported in public issues.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from pathlib import Path

from bench.server import answer
from openpai.diagnosis.rules import built_in
from openpai.lifecycle.diagnosis import TaskEnd, diagnose, find_end, root_of
from openpai.lifecycle.model import AttemptKey, ExitReport
from openpai.logs.files import FileLogs
from openpai.orchestrator.observing import tail_of
from openpai.orchestrator.search_time import SearchTime

TASKS = 64
LOG_BYTES = 100_000_000
ROOT = 37
_STEP = "2026-01-01 12:{:02}:{:02},000 INFO trainer: step {} loss 0.25 lr 5e-05 throughput 31.2 it/s\n"
_TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 88, in step\n    loss.backward()\n'
_OOM = _TRACEBACK + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
_PEER = _TRACEBACK + "RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.7]:29500\n"


async def measure(tasks: int, log_bytes: int, *, is_hostile: bool = False) -> tuple[float, float]:
    """Return the seconds of the clock and of the processor that a diagnosis of the gang takes."""
    with tempfile.TemporaryDirectory(prefix="pai-bench-") as directory:
        keys = [AttemptKey("0" * 32, 0, "worker", index, 0) for index in range(tasks)]
        for key in keys:
            text = hostile_text(key.index) if is_hostile else None
            _write(Path(directory) / key.path(), log_bytes, is_root=key.index == ROOT % tasks, text=text)

        async def is_over(_: AttemptKey) -> bool:
            return True

        logs = FileLogs(Path(directory), is_over)
        began, used = time.perf_counter(), time.process_time()
        ends = [TaskEnd(ExitReport(1), await tail_of(logs, key), 1000 + key.index, False) for key in keys]
        searched = SearchTime(0)
        for end in ends:
            searched.measured(lambda go_on: diagnose(end.report, end.tail, may_go_on=go_on))  # noqa: B023
        findings = [searched.measured(lambda go_on: find_end(end, may_go_on=go_on)) for end in ends]  # noqa: B023
        root = searched.measured(lambda go_on: root_of(ends, findings=findings, may_go_on=go_on))
        took = time.perf_counter() - began, time.process_time() - used
        await logs.close()
    if not is_hostile and (root is None or root[0] != ROOT % tasks or root[1].cause != "cuda_oom"):
        raise SystemExit(f"the wrong root was found: {root}")
    return took


def hostile_text(seed: int) -> str:
    """Return 64 KiB of words of all rules in disorder, which make a search for their patterns slow."""
    chance = random.Random(seed)
    words = [word for rule in built_in().rules for sample in rule.samples for word in sample.split()]
    lines = [" ".join(chance.choices(words, k=chance.choice((6, 200)))) for _ in range(600)]
    return "\n".join(lines)[-(64 << 10) :] + "\n"


def _write(directory: Path, log_bytes: int, *, is_root: bool, text: str | None) -> None:
    directory.mkdir(parents=True)
    steps = text or "".join(_STEP.format(step // 60 % 60, step % 60, step) for step in range(3000))
    with (directory / "stdout.log").open("wb") as out:
        # What is before the end is a hole: 6.4 GB of text would fill the disk and is not read.
        out.truncate(max(0, log_bytes - len(steps)))
        out.seek(0, 2)
        out.write(steps.encode())
    (directory / "stderr.log").write_text(text or (_OOM if is_root else _PEER))


def measure_holdout(each: int, seed: int) -> None:
    """Print how many cases are diagnosed rightly: those used to mend the rules, and those held out."""
    from tests.unit.diagnosis import holdout  # the cases are those of the tests

    found: dict[str, float] = {}
    parts_of = {holdout.CASES: "", holdout.REPORTED: "reported_", holdout.REPORTED_LATER: "reported_later_"}
    parts = ((file, is_held_out) for file in parts_of for is_held_out in (False, True))
    for file, is_held_out in parts:
        part = f"{parts_of[file]}{'held_out' if is_held_out else 'used'}"
        those = [case for case in holdout.cases(file) if case.is_held_out is is_held_out]
        shaped = [variant for case in those for variant in holdout.variants(case, each, seed)]
        for kind, some in (("cases", those), ("variants", shaped)):
            score = holdout.measure(some)
            found[f"{part}_{kind}"] = score.cases
            found |= {f"{part}_{kind}_{name}": round(share, 4) for name, share in score.shares().items()}
    for file in (holdout.REPORTED_UNSEEN, holdout.REPORTED_LAST, holdout.RAN):
        score = holdout.measure(holdout.cases(file))
        found[f"{file.stem}_cases"] = score.cases
        found |= {f"{file.stem}_cases_{name}": round(share, 4) for name, share in score.shares().items()}
    answer(**found)


def main(argv: list[str] | None = None) -> None:
    """Print what the diagnosis costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--hostile", action="store_true", help="use logs that are slow to search")
    parser.add_argument("--holdout", action="store_true", help="measure how often the diagnosis is right")
    parser.add_argument("--variants", type=int, default=10, help="variants of each case")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(argv)
    if given.holdout:
        measure_holdout(given.variants, given.seed)
        return
    clock_s, processor_s = asyncio.run(measure(given.tasks, LOG_BYTES, is_hostile=given.hostile))
    answer(tasks=given.tasks, log_bytes=LOG_BYTES, clock_s=round(clock_s, 2), processor_s=round(processor_s, 2))


if __name__ == "__main__":
    main()
