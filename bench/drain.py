"""How fast a full queue drains: 10,000 one-GPU jobs wait for 1,000 simulated nodes of 8 GPUs.

Every GPU is first taken by blockers, so that the whole queue is there before anything of it starts; then the
blockers are stopped and the clock runs until the last job is over. The bar is 500 jobs/s.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from bench.server import Server, answer, job, platform
from bench.throughput import submit_all, wait_all


async def block(server: Server, nodes: int, gpus: int) -> None:
    """Take every GPU: one job with a task per node, which runs until it is stopped."""
    connection = await server.connect()
    status, body = await connection.ask(
        "POST", "/api/v2/jobs", job("blocker", "sleep 86400", gpus=gpus, instances=nodes)
    )
    if status != 202:
        raise RuntimeError(f"blocker: {status} {body!r}")
    connection.close()
    while (await server.get("/api/v2/jobs/admin~blocker"))["jobStatus"]["state"] != "RUNNING":
        await asyncio.sleep(0.2)


async def measure(options: argparse.Namespace) -> None:
    shape = ("--nodes", str(options.nodes), "--gpus-per-node", str(options.gpus_per_node))
    async with platform("--backend", "simulated", *shape) as server:
        await block(server, options.nodes, options.gpus_per_node)
        began = time.perf_counter()
        await submit_all(server, [f"queued-{n:05d}" for n in range(options.jobs)], 16, "true", 1)
        queued_s = time.perf_counter() - began
        cpu_before = server.cpu_s()
        connection = await server.connect()
        stop = b'{"value": "STOP"}'
        began = time.perf_counter()
        await connection.ask("PUT", "/api/v2/jobs/admin~blocker/executionType", stop, "application/json")
        await wait_all(server, options.jobs, failed_states="FAILED")
        drained_s = time.perf_counter() - began
        answer(
            nodes=options.nodes,
            gpus=options.nodes * options.gpus_per_node,
            jobs=options.jobs,
            queued_per_s=round(options.jobs / queued_s, 1),
            drained_per_s=round(options.jobs / drained_s, 1),
            server_cpu_ms_per_job=round((server.cpu_s() - cpu_before) * 1000 / options.jobs, 2),
            server_memory_mb=server.memory_mb(),
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--gpus-per-node", type=int, default=8)
    asyncio.run(measure(parser.parse_args()))
