"""How long a one-task job takes from its submission to its first log line. The bar is p95 < 1 s.

One job after the other on the process backend, each followed by its log from the moment it was accepted.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from bench.server import Server, answer, job, percentile, platform


async def first_line_s(server: Server, name: str) -> float:
    """Submit a job that says something; return when its first log line could be read."""
    connection = await server.connect()
    began = time.perf_counter()
    status, body = await connection.ask("POST", "/api/v2/jobs", job(name, "echo here; sleep 0.2"))
    if status != 202:
        raise RuntimeError(f"submission: {status} {body!r}")
    path = f"/api/v2/jobs/admin~{name}/attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs/stdout"
    while True:
        status, body = await connection.ask("GET", path)
        if status == 200 and b"here" in body:
            connection.close()
            return time.perf_counter() - began
        await asyncio.sleep(0.005)


async def measure(options: argparse.Namespace) -> None:
    async with platform("--backend", "process") as server:
        took = [await first_line_s(server, f"first-{number}") for number in range(options.jobs)]
        answer(
            jobs=options.jobs,
            p50_ms=round(percentile(took, 0.5) * 1000, 1),
            p95_ms=round(percentile(took, 0.95) * 1000, 1),
            max_ms=round(max(took) * 1000, 1),
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=40)
    asyncio.run(measure(parser.parse_args()))
