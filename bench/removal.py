"""What tasks leave behind at its worst: a directory of a million files, and one 100,000 levels deep.

Both lie in the trash of a server before it starts. While it removes them `/healthz` and the list of jobs are asked.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path

from bench.server import Server, answer, platform

EVERY_S = 0.02
LIMIT_S = 600.0


def wide(directory: Path, files: int) -> None:
    """Make a directory of many files."""
    directory.mkdir(parents=True)
    at = os.open(directory, os.O_RDONLY)
    for number in range(files):
        os.close(os.open(f"{number}", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=at))
    os.close(at)


def deep(directory: Path, levels: int) -> None:
    """Make a directory within a directory, and so on."""
    directory.mkdir(parents=True)
    at = os.open(directory, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)


async def ask(server: Server, slowest: dict[str, float], name: str, path: str) -> None:
    connection = await server.connect()
    with contextlib.closing(connection):
        while True:
            began = time.perf_counter()
            await connection.ask("GET", path)
            slowest[name] = max(slowest.get(name, 0.0), time.perf_counter() - began)
            await asyncio.sleep(EVERY_S)


async def measure(options: argparse.Namespace) -> None:
    root = Path(tempfile.mkdtemp(prefix="pai-bench-"))
    trash = root / "data" / "tasks" / "process" / ".trash"
    try:
        wide(trash / "1", options.files)
        deep(trash / "2", options.levels)
        async with platform("--backend", "process", keep=root, has_ticks=True) as server:
            before_s, began = server.cpu_s(), time.perf_counter()
            await server.stalls()
            slowest: dict[str, float] = {}
            paths = {"healthz": "/healthz", "list": "/api/v2/jobs?limit=100"}
            asking = [asyncio.create_task(ask(server, slowest, *path)) for path in paths.items()]
            peak_mb = 0.0
            while any(trash.iterdir()):
                peak_mb = max(peak_mb, server.memory_mb())
                if time.perf_counter() - began > LIMIT_S:
                    raise RuntimeError(f"after {LIMIT_S:.0f} s the trash is not empty: {list(trash.iterdir())}")
                await asyncio.sleep(EVERY_S)
            took_s = time.perf_counter() - began
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            stalls = await server.stalls()
            answer(
                files=options.files,
                levels=options.levels,
                removed_s=round(took_s, 2),
                cpu_s=round(server.cpu_s() - before_s, 2),
                peak_memory_mb=peak_mb,
                slowest_s={name: round(each, 3) for name, each in slowest.items()},
                longest_stall_s=stalls["longest_s"],
                most_cpu_in_a_stall_s=stalls["most_cpu_s"],
            )
    finally:
        # What is left after a failure is too deep for this; the system's own rm takes it.
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--levels", type=int, default=100_000)
    asyncio.run(measure(parser.parse_args()))
