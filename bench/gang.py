"""One job with thousands of tasks: what it costs the server, and how long others wait meanwhile.

Tasks run on simulated nodes, and other requests (`/healthz`, the list of jobs, the job's own detail) are asked all the
while. Shapes:

- `gang`: all tasks start together and end together, each after `--run-s`. The bars for 10,000 tasks on 1,000 nodes are
  400 MB, no answer later than 1 s, launched within 15 s and over within 10 s after the last task ended.
- `trickle`: no gang, and 8 tasks at a time: the bar is 10 ms of processor time a task.
- `stop`: a gang that is stopped while it runs.
- `retry`: every task fails at once and is tried again in its place, as often as `--retries`.
- `jobs`: as many gangs as `--jobs`, one after the other submitted, running at the same time.
- `restart`: the server is killed while it launches a gang, and another one goes on.
- `routes`: a gang runs, and each route is asked alone: its processor time, its time, its size, and the longest stall.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.server import Server, answer, platform

EVERY_S = 0.05
DETAIL_EVERY_S = 0.5
LIMIT_S = 600.0
OVER = ("SUCCEEDED", "FAILED", "STOPPED")


@dataclass
class Watch:
    """What was seen while a job ran: the longest wait for an answer, by route, and the most memory."""

    slowest_s: dict[str, float] = field(default_factory=dict)
    peak_mb: float = 0.0
    job: dict[str, Any] = field(default_factory=dict)
    asking: list[asyncio.Task[None]] = field(default_factory=list)
    detail_mb: float = 0.0

    def note(self, route: str, took_s: float) -> None:
        """Remember how long an answer took."""
        self.slowest_s[route] = max(self.slowest_s.get(route, 0.0), took_s)

    def states(self) -> Counter[str]:
        """Return how many tasks are in which state, as the newest detail says."""
        roles = self.job.get("taskRoles", {}).values()
        return Counter(task["taskState"] for role in roles for task in role["taskStatuses"])

    @property
    def state(self) -> str:
        """Return the job's state, as the newest detail says."""
        return str(self.job.get("jobStatus", {}).get("state", "none"))


@asynccontextmanager
async def watched(server: Server, job: str, detail_every_s: float) -> AsyncIterator[Watch]:
    """Ask all routes again and again, each over a connection of its own."""
    watch = Watch()
    routes = {
        "healthz": ("/healthz", EVERY_S),
        "list": ("/api/v2/jobs?limit=100", EVERY_S),
        "summary": (f"/api/v2/jobs?keyword={job}&withTotalCount=true", EVERY_S),
        "detail": (f"/api/v2/jobs/admin~{job}", detail_every_s),
        "events": (f"/api/v2/jobs/admin~{job}/events", 1.0),
        "nodes": ("/api/v2/cluster/sku-types", 1.0),
    }
    watch.asking = [asyncio.create_task(_ask(server, watch, name, *route)) for name, route in routes.items()]
    watch.asking.append(asyncio.create_task(_weigh(server, watch)))
    try:
        yield watch
    finally:
        for task in watch.asking:
            task.cancel()
        await asyncio.gather(*watch.asking, return_exceptions=True)


async def _ask(server: Server, watch: Watch, name: str, path: str, every_s: float) -> None:
    connection = await server.connect()
    with contextlib.closing(connection):
        while True:
            began = time.perf_counter()
            status, body = await connection.ask("GET", path)
            watch.note(name, time.perf_counter() - began)
            if name == "detail" and status == 200:
                watch.detail_mb = max(watch.detail_mb, len(body) / 1e6)
                watch.job = await asyncio.to_thread(json.loads, body)
            await asyncio.sleep(every_s)


async def _weigh(server: Server, watch: Watch) -> None:
    while True:
        watch.peak_mb = max(watch.peak_mb, server.memory_mb())
        await asyncio.sleep(EVERY_S)


def job_file(name: str, options: argparse.Namespace, command: str) -> bytes:
    """Return the file of a job with one role of many tasks."""
    gang = "" if options.shape != "trickle" else "extras: {gangAllocation: false}\n"
    return f"""protocolVersion: 2
name: {name}
type: job
{gang}prerequisites:
  - {{type: dockerimage, name: image, uri: "ubuntu:22.04"}}
taskRoles:
  worker:
    instances: {options.tasks}
    taskRetryCount: {options.retries if options.shape == "retry" else 0}
    dockerImage: image
    completion: {{minFailedInstances: {options.tasks if options.shape == "retry" else 1}}}
    resourcePerInstance: {{cpu: 1, memoryMB: {options.memory_mb}, gpu: {options.gpus}, ports: {{rpc: 1, web: 1}}}}
    commands:
      - {json.dumps(command)}
""".encode()


async def submit(server: Server, name: str, options: argparse.Namespace, command: str) -> float:
    """Submit a job; return how long the answer took."""
    connection = await server.connect()
    with contextlib.closing(connection):
        began = time.perf_counter()
        status, body = await connection.ask("POST", "/api/v2/jobs", job_file(name, options, command))
        if status != 202:
            raise RuntimeError(f"submission: {status} {body[:500]!r}")
        return time.perf_counter() - began


async def until(watch: Watch, is_there: Callable[[], bool]) -> float:
    """Wait until the newest detail says so; return when."""
    deadline = time.perf_counter() + LIMIT_S
    while not is_there():
        for task in watch.asking:
            if task.done():
                task.result()
        if time.perf_counter() > deadline:
            raise RuntimeError(f"after {LIMIT_S:.0f} s the job is {watch.state}: {dict(watch.states())}")
        await asyncio.sleep(EVERY_S)
    return time.perf_counter()


def ended_s(watch: Watch, run_s: float) -> float:
    """Return how long ago the last task of a job ended: both sides go by the clock of this machine."""
    started = [task["launchedTime"] for role in watch.job["taskRoles"].values() for task in role["taskStatuses"]]
    return float(time.time() - max(started) / 1000 - run_s)


async def gang(server: Server, options: argparse.Namespace) -> dict[str, Any]:
    async with watched(server, "gang", DETAIL_EVERY_S) as watch:
        began = time.perf_counter()
        submitted_s = await submit(server, "gang", options, f"sleep {options.run_s}")
        launched = await until(watch, lambda: watch.states()["RUNNING"] == options.tasks)
        await until(watch, lambda: watch.state == "SUCCEEDED")
        over_s = ended_s(watch, options.run_s)
    return {
        "submitted_s": round(submitted_s, 2),
        "launched_s": round(launched - began, 2),
        "ended_s": round(over_s, 2),
        **figures(watch),
    }


async def trickle(server: Server, options: argparse.Namespace) -> dict[str, Any]:
    async with watched(server, "gang", 3.0) as watch:
        began = time.perf_counter()
        await submit(server, "gang", options, "true")
        over = await until(watch, lambda: watch.state in OVER)
    return {"over_s": round(over - began, 2), "state": watch.state, **figures(watch)}


async def stop(server: Server, options: argparse.Namespace) -> dict[str, Any]:
    async with watched(server, "gang", DETAIL_EVERY_S) as watch:
        await submit(server, "gang", options, "sleep 1d")
        await until(watch, lambda: watch.states()["RUNNING"] == options.tasks)
        connection = await server.connect()
        began = time.perf_counter()
        path = "/api/v2/jobs/admin~gang/executionType"
        await connection.ask("PUT", path, b'{"value": "STOP"}', "application/json")
        answered_s = time.perf_counter() - began
        connection.close()
        over = await until(watch, lambda: watch.state == "STOPPED")
    return {"answered_s": round(answered_s, 2), "stopped_s": round(over - began, 2), **figures(watch)}


async def retry(server: Server, options: argparse.Namespace) -> dict[str, Any]:
    async with watched(server, "gang", DETAIL_EVERY_S) as watch:
        began = time.perf_counter()
        await submit(server, "gang", options, "exit 7")
        over = await until(watch, lambda: watch.state in OVER)
    return {"over_s": round(over - began, 2), "state": watch.state, **figures(watch)}


async def jobs(server: Server, options: argparse.Namespace) -> dict[str, Any]:
    async with watched(server, "gang-0", DETAIL_EVERY_S) as watch:
        began = time.perf_counter()
        for number in range(options.jobs):
            await submit(server, f"gang-{number}", options, f"sleep {options.run_s}")
        await until(watch, lambda: watch.state in OVER)
        succeeded = "/api/v2/jobs?state=SUCCEEDED&limit=1&withTotalCount=true"
        while (await server.get(succeeded))["totalCount"] < options.jobs:
            await asyncio.sleep(0.2)
        over = time.perf_counter()
    return {"over_s": round(over - began, 2), **figures(watch)}


def figures(watch: Watch) -> dict[str, Any]:
    """Return what was seen, as figures."""
    slowest = {name: round(took_s, 3) for name, took_s in watch.slowest_s.items()}
    return {
        "peak_memory_mb": watch.peak_mb,
        "slowest_answer_s": max(slowest.values()),
        "slowest_healthz_s": slowest["healthz"],
        "slowest_s": slowest,
        "detail_mb": round(watch.detail_mb, 2),
    }


async def routes(server: Server, options: argparse.Namespace) -> dict[str, Any]:
    await submit(server, "gang", options, "sleep 1d")
    running = "/api/v2/jobs?keyword=gang&state=RUNNING"
    while not (found := await server.get(running)) or found[0]["totalTaskNumber"] != options.tasks:
        await asyncio.sleep(1)
    await asyncio.sleep(options.settle_s)
    await server.stalls()
    message = {}
    for name, path in ROUTES.items():
        message[name] = [await asked_alone(server, path) for _ in range(options.rounds)]
    return {"routes": {name: min(rounds, key=lambda one: one["cpu_s"]) for name, rounds in message.items()}}


async def asked_alone(server: Server, path: str) -> dict[str, Any]:
    """Return what one request costs the server while there are no other requests."""
    connection = await server.connect()
    with contextlib.closing(connection):
        await connection.ask("GET", "/healthz")
        before_s, began = server.cpu_s(), time.perf_counter()
        status, body = await connection.ask("GET", path)
        took_s = time.perf_counter() - began
    cpu_s = server.cpu_s() - before_s
    stalls = await server.stalls()
    return {
        "status": status,
        "cpu_s": round(cpu_s, 3),
        "took_s": round(took_s, 3),
        "kb": round(len(body) / 1000, 1),
        "stall_cpu_s": stalls["most_cpu_s"],
        **({"by": stalls["most_computed"][0]["doing"]} if stalls["most_computed"] else {}),
    }


ROUTES = {
    "healthz": "/healthz",
    "list": "/api/v2/jobs?limit=100",
    "detail": "/api/v2/jobs/admin~gang",
    "attempt": "/api/v2/jobs/admin~gang/attempts/0",
    "old attempts": "/api/v2/jobs/admin~gang/job-attempts",
    "config": "/api/v2/jobs/admin~gang/config",
    "events": "/api/v2/jobs/admin~gang/events",
    "why": "/api/v2/jobs/admin~gang/why",
    "ssh": "/api/v2/jobs/admin~gang/ssh",
    "one task": "/api/v2/jobs/admin~gang/attempts/0/taskRoles/worker/taskIndex/9/attempts",
    "log list": "/api/v2/jobs/admin~gang/attempts/0/taskRoles/worker/taskIndex/9/attempts/0/logs",
    "work": "/api/v2/jobs/admin~gang/work",
    "pods": "/api/v2/kubernetes/pods",
    "k8s nodes": "/api/v2/kubernetes/nodes",
    "sku types": "/api/v2/cluster/sku-types",
    "nodes": "/api/v2/nodes",
    "virtual clusters": "/api/v2/virtual-clusters",
}
SHAPES = {"gang": gang, "trickle": trickle, "stop": stop, "retry": retry, "jobs": jobs, "routes": routes}


def shape_of(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the options of a platform on which a job of this shape runs."""
    if options.shape == "trickle":
        return ("--backend", "simulated", "--nodes", "1", "--gpus-per-node", "0", "--cpus-per-node", "8")
    nodes = ("--nodes", str(options.nodes), "--gpus-per-node", str(options.gpus_per_node))
    real = ("--cpus-per-node", str(2 * options.gpus_per_node)) if options.backend == "process" else ()
    where = ("--database-url", options.database_url) if options.database_url else ()
    return ("--backend", options.backend, *nodes, *real, *where)


async def measure(options: argparse.Namespace) -> None:
    if options.shape == "restart":
        answer(tasks=options.tasks, nodes=options.nodes, shape="restart", **await restart(options))
        return
    async with platform(*shape_of(options), has_ticks=True) as server:
        before_s = server.cpu_s()
        idle_mb = server.memory_mb()
        await server.stalls()
        found = await SHAPES[options.shape](server, options)
        cpu_s = server.cpu_s() - before_s
        stalls = await server.stalls()
        tasks = options.tasks * (options.jobs if options.shape == "jobs" else 1)
        answer(
            shape=options.shape,
            tasks=tasks,
            nodes=options.nodes,
            idle_memory_mb=idle_mb,
            cpu_s=round(cpu_s, 2),
            cpu_ms_per_task=round(cpu_s * 1000 / tasks, 3),
            **found,
            stalls=stalls,
        )


async def restart(options: argparse.Namespace) -> dict[str, Any]:
    """Kill a server in the middle of launching, and let another one finish the job."""
    root = Path(tempfile.mkdtemp(prefix="pai-bench-"))
    try:
        async with platform(*shape_of(options), keep=root) as server:
            await submit(server, "gang", options, f"sleep {options.run_s}")
            await asyncio.sleep(options.kill_after_s)
            os.kill(server.pid, signal.SIGKILL)
        (root / "ready.json").unlink()
        began = time.perf_counter()
        async with platform(*shape_of(options), keep=root) as server:
            ready_s = time.perf_counter() - began
            async with watched(server, "gang", DETAIL_EVERY_S) as watch:
                # What a simulated cluster ran is gone with the server: the job begins again as another attempt.
                over = await until(watch, lambda: watch.state in OVER)
            return {
                "ready_s": round(ready_s, 2),
                "over_s": round(over - began, 2),
                "state": watch.state,
                "attempts": watch.job["jobStatus"]["retries"] + 1,
                **figures(watch),
            }
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=[*SHAPES, "restart"], default="gang")
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--gpus-per-node", type=int, default=10)
    parser.add_argument("--gpus", type=int, default=1, help="GPUs of each task")
    parser.add_argument("--run-s", type=int, default=30, help="how long each task runs")
    parser.add_argument("--retries", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--backend", choices=["simulated", "process"], default="simulated")
    parser.add_argument("--database-url", default="", help="an empty database of PostgreSQL instead of SQLite")
    parser.add_argument("--memory-mb", type=int, default=64, help="memory each task asks for")
    parser.add_argument("--rounds", type=int, default=3, help="how often each route is asked")
    parser.add_argument("--settle-s", type=float, default=10.0)
    parser.add_argument("--kill-after-s", type=float, default=2.0)
    given = parser.parse_args()
    if given.shape == "trickle":
        given.gpus, given.nodes = 0, 1
    asyncio.run(measure(given))
