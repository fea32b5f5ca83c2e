"""How soon a rank that was stopped is named, on a real server.

`python -m bench.hangs --backend process` starts a gang of three ranks, sends SIGSTOP to the program of one, and waits
for the event of the job. The bar: the right rank within the timeout of the job and 15 s. The others spin, as ranks that
wait in NCCL do.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any, Final

from bench.server import Server, answer, platform

STOPPED: Final = 1
SPIN: Final = "echo up; while :; do :; done"
JOB: Final = """protocolVersion: 2
name: {name}
type: job
prerequisites:
  - {{name: image, type: dockerimage, uri: "{image}"}}
taskRoles:
  worker:
    instances: 3
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 64, gpu: 0}}
    commands: ["sh -c '{commands}'"]
extras:
  hangDetection: {{minutes: {minutes}}}
"""


async def submitted(server: Server, name: str, text: str) -> dict[str, Any]:
    """Submit a job, and return its detail once all of its tasks run."""
    connection = await server.connect()
    status, body = await connection.ask("POST", "/api/v2/jobs", text.encode())
    connection.close()
    if status != 202:
        raise RuntimeError(body.decode())
    while True:
        detail: dict[str, Any] = await server.get(f"/api/v2/jobs/{name}")
        tasks = detail["taskRoles"]["worker"]["taskStatuses"]
        if all(task["taskState"] == "RUNNING" for task in tasks):
            return detail
        await asyncio.sleep(0.1)


def processes_of(marker: str) -> list[int]:
    """Return the processes of a program whose environment has a text."""
    found = []
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if path.name.isdecimal() and marker.encode() in (path / "environ").read_bytes():
                arguments = (path / "cmdline").read_bytes().split(b"\0")
                if b"-c" in arguments and SPIN.encode() in arguments:
                    found.append(int(path.name))
    return found


async def measure(backend: str, image: str, minutes: float) -> None:
    """Measure, and print the figures."""
    async with platform("--backend", backend, "--cpus-per-node", "8") as server:
        text = JOB.format(name="gang", image=image, commands=SPIN, minutes=minutes)
        detail = await submitted(server, "gang", text)
        try:
            await _measured(server, backend, minutes, detail["debugId"])
        finally:
            await stop(server, "gang")


async def _measured(server: Server, backend: str, minutes: float, job: str) -> None:
    await asyncio.sleep(12)
    before = await hangs(server)
    pids = processes_of(f"PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX={STOPPED}\0")
    pids = [pid for pid in pids if job.encode() in Path(f"/proc/{pid}/environ").read_bytes() or backend == "docker"]
    if len(pids) != 1 or before:
        raise RuntimeError(f"{len(pids)} processes of the rank, events before: {before}")
    os.kill(pids[0], signal.SIGSTOP)
    began_s = time.monotonic()
    while not (events := await hangs(server)):
        if time.monotonic() - began_s > minutes * 60 + 120:
            raise RuntimeError("the stopped rank was not found")
        await asyncio.sleep(0.2)
    after_s = time.monotonic() - began_s
    message = events[0]["message"]
    answer(
        backend=backend,
        timeout_s=minutes * 60,
        named_after_timeout_s=round(after_s - minutes * 60, 1),
        is_right=f"worker-{STOPPED} " in message,
        message=message,
    )


async def stop(server: Server, name: str) -> None:
    """Stop a job; returns once its tasks are gone, which would go on without a server."""
    connection = await server.connect()
    await connection.ask("PUT", f"/api/v2/jobs/{name}/executionType", b'{"value": "STOP"}', "application/json")
    connection.close()
    while (await server.get(f"/api/v2/jobs/{name}"))["jobStatus"]["state"] in ("RUNNING", "STOPPING"):
        await asyncio.sleep(0.2)


async def hangs(server: Server) -> list[dict[str, Any]]:
    """Return the events of hangs."""
    found = await server.get("/api/v2/jobs/gang/events")
    return [event for event in found["data"] if event["reason"] == "JobHangs"]


def main() -> None:
    """Measure with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="process", choices=("process", "docker"))
    parser.add_argument("--image", default="busybox")
    parser.add_argument("--minutes", type=float, default=0.5)
    options = parser.parse_args()
    asyncio.run(measure(options.backend, options.image, options.minutes))


if __name__ == "__main__":
    main()
