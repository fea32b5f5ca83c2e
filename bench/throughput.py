"""From submission to completion: how many no-op jobs a second go through the whole platform.

`python -m bench.throughput --jobs 2000 --backend process` submits all of them over HTTP and waits until every job
is over. The bar for the process backend is 200 jobs/s over 2,000 jobs.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from bench.server import Server, answer, job, percentile, platform


async def submit_all(server: Server, names: list[str], connections: int, commands: str, gpus: int) -> list[float]:
    """Submit every job over this many connections; return how long each submission took, in milliseconds."""
    left = iter(names)
    took: list[float] = []

    async def one() -> None:
        connection = await server.connect()
        for name in left:
            began = time.perf_counter()
            status, body = await connection.ask("POST", "/api/v2/jobs", job(name, commands, gpus=gpus))
            took.append((time.perf_counter() - began) * 1000)
            if status != 202:
                raise RuntimeError(f"submission: {status} {body!r}")
        connection.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return took


async def wait_all(server: Server, count: int, failed_states: str = "FAILED,STOPPED") -> None:
    """Wait until this many jobs have succeeded. Raises RuntimeError when one failed."""
    while True:
        done = await server.get("/api/v2/jobs?state=SUCCEEDED&limit=1&withTotalCount=true")
        if done["totalCount"] >= count:
            return
        failed = await server.get(f"/api/v2/jobs?state={failed_states}&limit=1&withTotalCount=true")
        if failed["totalCount"]:
            raise RuntimeError(f"{failed['totalCount']} jobs failed: {failed['data']}")
        await asyncio.sleep(0.1)


async def measure(options: argparse.Namespace) -> None:
    extra = []
    if options.nodes:
        extra = ["--nodes", str(options.nodes), "--gpus-per-node", str(options.gpus_per_node)]
    async with platform("--backend", options.backend, *extra) as server:
        names = [f"noop-{number:05d}" for number in range(options.jobs)]
        cpu_before = server.cpu_s()
        began = time.perf_counter()
        took = await submit_all(server, names, options.connections, options.command, options.gpus)
        submitted_s = time.perf_counter() - began
        await wait_all(server, options.jobs)
        all_s = time.perf_counter() - began
        answer(
            backend=options.backend,
            jobs=options.jobs,
            connections=options.connections,
            jobs_per_s=round(options.jobs / all_s, 1),
            submissions_per_s=round(options.jobs / submitted_s, 1),
            submission_p50_ms=round(percentile(took, 0.5), 1),
            submission_p99_ms=round(percentile(took, 0.99), 1),
            server_cpu_ms_per_job=round((server.cpu_s() - cpu_before) * 1000 / options.jobs, 2),
            server_memory_mb=server.memory_mb(),
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--backend", default="process")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--gpus-per-node", type=int, default=8)
    parser.add_argument("--gpus", type=int, default=0, help="GPUs of each job")
    parser.add_argument("--command", default="true")
    asyncio.run(measure(parser.parse_args()))
