"""Runs the fault simulator by hand: one seed again, or thousands of new ones."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.simulation.kubernetes.world import KubeWorld
from tests.simulation.world import Failed, World, live_through

KINDS: Final[Mapping[str, type[World]]] = {"simulated": World, "kubernetes": KubeWorld}
"""What the servers run tasks on."""


def attempt(seed: int, kind: str = "simulated") -> tuple[int, str]:
    """Return the seed and what it found, nothing when every promise held."""
    try:
        live_through(seed, KINDS[kind])
    except Failed as failed:
        return seed, str(failed)
    return seed, ""


def stories(call: str) -> set[str]:
    """Return what `call` yields in two processes that hash texts differently: one story where nothing hangs on that."""
    imports = "from tests.simulation.kubernetes.world import KubeWorld; from tests.simulation.world import live_through"
    return {
        subprocess.run(
            [sys.executable, "-c", f"{imports}; print({call})"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).resolve().parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }


def run(first: int, count: int, workers: int, console: Console, kind: str) -> list[int]:
    """Live through `count` seeds; print what fails and return the seeds that did."""
    failed: list[int] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress, ProcessPoolExecutor(workers) as pool:
        bar = progress.add_task("seeds", total=count)
        for seed, message in pool.map(partial(attempt, kind=kind), range(first, first + count), chunksize=5):
            progress.advance(bar)
            if not console.is_terminal and (seed - first + 1) % 500 == 0:
                console.print(f"{seed - first + 1} seeds, {len(failed)} failed")
            if message:
                failed.append(seed)
                console.print(message)
    return failed


def main() -> int:
    """Run what the command line says; return 1 when a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="live through this one seed again")
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds [200]")
    parser.add_argument("--first", type=int, default=0, help="the first of them [0]")
    parser.add_argument("--workers", type=int, default=2, help="processes that share the work [2]")
    parser.add_argument("--on", choices=KINDS, default="simulated", help="the backend of the servers [simulated]")
    asked = parser.parse_args()
    console = Console(highlight=False, markup=False, soft_wrap=True)
    if asked.seed is not None:
        seed, message = attempt(asked.seed, asked.on)
        console.print(message or f"seed {seed}: every promise held")
        return 1 if message else 0
    began_s = time.monotonic()
    failed = run(asked.first, asked.seeds, asked.workers, console, asked.on)
    console.print(f"{asked.seeds} seeds from {asked.first}: {len(failed)} failed, {time.monotonic() - began_s:.0f} s")
    if failed:
        console.print("failed: " + " ".join(map(str, failed)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
