"""Two clients list every one of thousands of jobs, again and again: how long others wait, and what keeps the loop."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time

from bench.server import Server, answer, job, platform


async def ask(server: Server, slowest: dict[str, float], counts: dict[str, int], name: str, path: str) -> None:
    connection = await server.connect()
    with contextlib.closing(connection):
        while True:
            began = time.perf_counter()
            status, _ = await connection.ask("GET", path)
            if status == 429:
                # The limit of lists for each client was met.
                await asyncio.sleep(0.2)
                continue
            slowest[name] = max(slowest.get(name, 0.0), time.perf_counter() - began)
            counts[name] = counts.get(name, 0) + 1
            await asyncio.sleep(0.02 if name == "healthz" else 0)


async def measure(options: argparse.Namespace) -> None:
    async with platform("--backend", "simulated", "--nodes", "1", has_ticks=True) as server:
        connection = await server.connect()
        for number in range(options.jobs):
            await connection.ask("POST", "/api/v2/jobs", job(f"job-{number}", "sleep 1d"))
        connection.close()
        await server.stalls()
        slowest: dict[str, float] = {}
        counts: dict[str, int] = {}
        whole = f"/api/v2/jobs?limit={options.jobs}&withTotalCount=true"
        paths = [("healthz", "/healthz"), *[(f"list {number}", whole) for number in range(options.clients)]]
        asking = [asyncio.create_task(ask(server, slowest, counts, *path)) for path in paths]
        await asyncio.sleep(options.seconds)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        stalls = await server.stalls()
        answer(
            jobs=options.jobs,
            clients=options.clients,
            answers=counts,
            slowest_s={name: round(took_s, 3) for name, took_s in slowest.items()},
            longest_stall_s=stalls["longest_s"],
            most_cpu_in_a_stall_s=stalls["most_cpu_s"],
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=15.0)
    asyncio.run(measure(parser.parse_args()))
