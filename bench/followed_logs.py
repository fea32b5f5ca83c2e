"""A thousand people who follow logs at once: what they cost the server and how long a line takes to reach them.

`python -m bench.followed_logs --readers 1000` follows one log a thousand times, then a thousand logs once each;
lines carry the time they were written. Then it lets a thousand readers who never read pile up on a long log. The
bars: less than 300 MB, and no reader waits longer than a second. Lines are written straight into the log files, as
a container engine would, so that the figures are the server's alone.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from bench.server import Server, answer, job, percentile, platform

STAMP: Final = re.compile(rb"@(\d+)@")
TAIL_BYTES: Final = 64


class Reader:
    """One follower: notes how long each line took to reach it."""

    def __init__(self) -> None:
        self.waits_s: list[float] = []
        self._writer: asyncio.StreamWriter | None = None

    async def open(self, server: Server, path: str) -> asyncio.StreamReader:
        """Begin to follow."""
        where = urlsplit(server.url)
        # A small buffer, so that a reader who does not read soon stands in the server's way.
        reader, self._writer = await asyncio.open_connection(where.hostname, where.port, limit=4096)
        head = f"GET {path}?follow=true HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {server.token}\r\n\r\n"
        self._writer.write(head.encode())
        answered = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in answered.split(b"\r\n")[0]:
            raise RuntimeError(answered.decode())
        return reader

    async def follow(self, server: Server, path: str) -> None:
        """Read until cancelled."""
        reader = await self.open(server, path)
        rest = b""
        while data := await reader.read(65536):
            now_ns = time.time_ns()
            text = rest + data
            found = list(STAMP.finditer(text))
            self.waits_s += [(now_ns - int(stamp[1])) / 1e9 for stamp in found]
            rest = text[found[-1].end() if found else 0 :][-TAIL_BYTES:]

    def close(self) -> None:
        """Hang up."""
        if self._writer is not None:
            self._writer.close()


async def running(server: Server, name: str, instances: int) -> list[dict[str, Any]]:
    """Submit a job that runs until it is stopped, and return its tasks once all run."""
    connection = await server.connect()
    status, body = await connection.ask("POST", "/api/v2/jobs", job(name, "sleep infinity", instances=instances))
    connection.close()
    if status != 202:
        raise RuntimeError(body.decode())
    while True:
        detail = await server.get(f"/api/v2/jobs/{name}")
        tasks: list[dict[str, Any]] = detail["taskRoles"]["worker"]["taskStatuses"]
        if all(task["taskState"] == "RUNNING" for task in tasks):
            return tasks
        await asyncio.sleep(0.2)


def files_of(server: Server, tasks: Sequence[dict[str, Any]]) -> list[Path]:
    """Return the log file of each task, created if no task has written to it yet."""
    files = [server.data_dir / "logs" / task["containerId"] / "stdout.log" for task in tasks]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return files


async def write_lines(files: Sequence[Path], for_s: float) -> int:
    """Write a line into every file each second, spread evenly over the second; return how many."""
    written = 0
    began = time.monotonic()
    while time.monotonic() - began < for_s:
        due = int((time.monotonic() - began) * len(files))
        for number in range(written, due):
            with files[number % len(files)].open("ab") as file:
                file.write(b"epoch 3 step 1200 loss 0.1234 @%d@\n" % time.time_ns())
        written = max(written, due)
        await asyncio.sleep(0.005)
    return written


async def watch(server: Server, figures: dict[str, float]) -> None:
    """Keep the largest memory seen."""
    while True:
        figures["memory_mb"] = max(figures.get("memory_mb", 0.0), server.memory_mb())
        await asyncio.sleep(0.2)


async def follow_all(
    server: Server, paths: Sequence[str], files: Sequence[Path], options: argparse.Namespace
) -> dict[str, float]:
    """Follow each path once while lines are written to the files; return what it cost and how long lines took."""
    figures: dict[str, float] = {"readers": len(paths), "logs": len(files)}
    readers = [Reader() for _ in paths]
    following = [asyncio.create_task(one.follow(server, path)) for one, path in zip(readers, paths, strict=True)]
    watching = asyncio.create_task(watch(server, figures))
    await asyncio.sleep(options.settle_s)
    began_s, cpu_before_s = time.monotonic(), server.cpu_s()
    lines = await write_lines(files, options.seconds)
    await asyncio.sleep(2)
    cpu_share = (server.cpu_s() - cpu_before_s) / (time.monotonic() - began_s)
    for task in (*following, watching):
        task.cancel()
    await asyncio.gather(*following, watching, return_exceptions=True)
    for reader in readers:
        reader.close()
    waits_s = [wait_s for reader in readers for wait_s in reader.waits_s]
    expected = lines * len(paths) // len(files)
    if len(waits_s) < expected:
        raise RuntimeError(f"{expected - len(waits_s)} of {expected} lines did not arrive")
    return figures | {
        "lines_received": len(waits_s),
        "max_wait_s": round(max(waits_s), 3),
        "p99_wait_s": round(percentile(waits_s, 0.99), 3),
        "server_cpu_share": round(cpu_share, 3),
    }


async def pile_up(server: Server, path: str, file: Path, options: argparse.Namespace) -> dict[str, float]:
    """Let readers who never read pile up on a long log; return the most memory that took."""
    with file.open("ab") as log:
        log.write((b"x" * 99 + b"\n") * (options.log_mb * 10_000))
    figures: dict[str, float] = {"readers": options.readers, "log_mb": options.log_mb}
    watching = asyncio.create_task(watch(server, figures))
    stuck = [Reader() for _ in range(options.readers)]
    await asyncio.gather(*(one.open(server, path) for one in stuck))
    await asyncio.sleep(options.settle_s)
    watching.cancel()
    for one in stuck:
        one.close()
    return figures


async def measure(options: argparse.Namespace) -> None:
    """Measure one log, many logs, and readers who do not read."""
    wanted = options.readers + 200
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(wanted * 2, 4096), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    # A CPU for each task of both jobs.
    cpus = -(-(options.readers + 1) // options.nodes)
    extra = ["--nodes", str(options.nodes), "--cpus-per-node", str(cpus), "--gpus-per-node", "0"]
    async with platform("--backend", options.backend, *extra) as server:
        idle_mb = server.memory_mb()
        many = await running(server, "many", options.readers)
        one = await running(server, "one", 1)
        [file] = files_of(server, one)
        path = one[0]["containerLog"] + "/stdout"
        one_log = await follow_all(server, [path] * options.readers, [file], options)
        paths = [task["containerLog"] + "/stdout" for task in many]
        many_logs = await follow_all(server, paths, files_of(server, many), options)
        stuck = await pile_up(server, path, file, options)
        answer(
            readers=options.readers,
            idle_memory_mb=idle_mb,
            memory_mb=max(one_log["memory_mb"], many_logs["memory_mb"], stuck["memory_mb"]),
            max_wait_s=max(one_log["max_wait_s"], many_logs["max_wait_s"]),
            one_log=one_log,
            many_logs=many_logs,
            readers_who_do_not_read=stuck,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--settle-s", type=float, default=5, help="before each measurement")
    parser.add_argument("--log-mb", type=int, default=10)
    parser.add_argument("--backend", default="simulated")
    parser.add_argument("--nodes", type=int, default=16)
    asyncio.run(measure(parser.parse_args()))
