"""Whether a real NVIDIA GPU is found, isolated, measured and judged as these docs say, on a real server.

`python -m bench.gpu --python PATH` needs `nvidia-smi`, the extra `nvidia`, and a Python with PyTorch for its jobs. It
submits jobs that see the GPU, train on it, hang in a kernel, run out of its memory and forget it, and compares what the
platform says of each with what nvidia-smi says. It takes about five minutes, and ends with 1 if anything does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from bench.hangs import stop
from bench.server import Server, answer, platform

SEES: Final = """
import time, torch
print("sees", torch.cuda.device_count(), *(str(torch.cuda.get_device_properties(n).uuid)
      for n in range(torch.cuda.device_count())), flush=True)
"""
TRAIN: Final = f"""{SEES}
torch.manual_seed(0)
net = torch.nn.Linear(4096, 4096).cuda()
optimizer = torch.optim.Adam(net.parameters(), lr=0.001)
x = torch.randn(16384, 4096, device="cuda")
losses, steps, end = [], 0, time.time() + 35
while time.time() < end:
    with torch.autocast("cuda", torch.bfloat16):
        loss = torch.nn.functional.mse_loss(net(x), x / 2)
    optimizer.zero_grad(); loss.backward(); optimizer.step(); steps += 1
    if steps % 20 == 1: losses.append(loss.item())
assert losses[-1] < losses[0] / 10, losses
print("trained", steps, flush=True)
"""
SPIN: Final = f"""{SEES}
torch.ones(1, device="cuda").sum().item()
torch.cuda._sleep(1 << 42)
time.sleep(900)
"""
FORGET: Final = f"""{SEES}
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
for _ in range(50): a = (a @ a).clamp(-1, 1)
torch.cuda.synchronize()
time.sleep(900)
"""
FILL: Final = f"""{SEES}
blocks = []
while True: blocks.append(torch.empty(4 << 30, dtype=torch.uint8, device="cuda"))
"""
# What nvidia-smi calls a value, and how far ours may be from what it said within the last round of measuring.
VALUES: Final = {
    "DCGM_FI_DEV_GPU_UTIL": ("utilization.gpu", 15),
    "DCGM_FI_DEV_FB_USED": ("memory.used", 64),
    "DCGM_FI_DEV_FB_RESERVED": ("memory.reserved", 1),
    "DCGM_FI_DEV_POWER_USAGE": ("power.draw", 60),
    "DCGM_FI_DEV_GPU_TEMP": ("temperature.gpu", 4),
    "DCGM_FI_DEV_SM_CLOCK": ("clocks.sm", 300),
}
IDLE: Final = "GpuForgotten"
ENDED: Final = ("SUCCEEDED", "FAILED", "STOPPED")


def smi(*fields: str) -> list[str]:
    """Return what nvidia-smi says of the first GPU."""
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    answered = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [value.strip() for value in answered.split(",")]


def job(name: str, python: str, program: str, gpus: int, hang_minutes: float | None = None) -> bytes:
    """Return the file of a job with one task that runs a program."""
    role = {
        "instances": 1,
        "dockerImage": "image",
        "resourcePerInstance": {"cpu": 1, "memoryMB": 8192, "gpu": gpus},
        "commands": [f"cat > program.py <<'END'\n{program}\nEND", f"exec {python} program.py"],
    }
    image = {"name": "image", "type": "dockerimage", "uri": "pytorch/pytorch"}
    extras = {} if hang_minutes is None else {"hangDetection": {"minutes": hang_minutes}}
    file = {"protocolVersion": 2, "name": name, "type": "job", "prerequisites": [image], "extras": extras}
    return json.dumps({**file, "taskRoles": {"worker": role}}).encode()


class Gpu:
    """A platform with a GPU, and what was found to hold of it."""

    def __init__(self, server: Server, python: str) -> None:
        self.server = server
        self.python = python
        self.holds: dict[str, bool] = {}
        self.figures: dict[str, Any] = {}

    async def ask(self, method: str, path: str, body: bytes = b"") -> str:
        """Return the text of an answer."""
        connection = await self.server.connect()
        try:
            status, found = await connection.ask(
                method, path, body, "application/json" if method == "PUT" else "text/yaml"
            )
        finally:
            connection.close()
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {found[:500]!r}")
        return found.decode()

    async def submit(self, name: str, program: str, gpus: int = 1, hang_minutes: float | None = None) -> None:
        """Submit a job."""
        await self.ask("POST", "/api/v2/jobs", job(name, self.python, program, gpus, hang_minutes))

    async def status(self, name: str) -> dict[str, Any]:
        """Return the status of a job."""
        detail: dict[str, Any] = await self.server.get(f"/api/v2/jobs/{name}")
        return {**detail["jobStatus"], "task": detail["taskRoles"]["worker"]["taskStatuses"][0]}

    async def ended(self, name: str) -> bool:
        """Return whether a job has ended."""
        return (await self.status(name))["state"] in ENDED

    async def log(self, name: str) -> str:
        """Return what a job has printed."""
        task = (await self.status(name))["task"]
        return await self.ask("GET", f"{task['containerLog']}/stdout") if task["containerLog"] else ""

    async def metric(self, metric: str, label: str = "") -> float | None:
        """Return the newest value of the first series of a metric that has a label."""
        for line in (await self.ask("GET", "/metrics")).splitlines():
            if line.startswith(f"{metric}{{") and label in line:
                return float(line.rpartition(" ")[2])
        return None


async def until(seconds: float, found: Callable[[], Awaitable[Any]]) -> Any:
    """Return the first answer that says something; the last one when the time is over."""
    end = time.monotonic() + seconds
    while not (value := await found()) and time.monotonic() < end:
        await asyncio.sleep(1)
    return value


async def check_isolation(gpu: Gpu) -> None:
    """Find out what jobs see that asked for one GPU, for none, and for one that is taken."""
    name, uuid, driver, memory = smi("name", "uuid", "driver_version", "memory.total")
    gpu.figures |= {"gpu": name, "driver": driver, "memory_mib": int(memory)}
    [node] = await gpu.server.get("/api/v2/nodes")
    gpu.holds["the node says which GPU it has"] = node["gpuModel"] == name and node["gpus"]["total"] >= 1
    await gpu.submit("none", SEES, gpus=0)
    await gpu.submit("train", TRAIN)
    await until(60, partial(gpu.log, "train"))
    await gpu.submit("spin", SPIN, hang_minutes=0.75)
    why = await until(20, lambda: gpu.server.get("/api/v2/jobs/spin/why"))
    gpu.holds["a job that finds no free GPU waits, and says so"] = node["gpus"]["total"] > 1 or (
        (await gpu.status("spin"))["state"] == "WAITING" and "GPU" in json.dumps(why)
    )
    await until(60, partial(gpu.ended, "none"))
    gpu.holds["a job without GPUs sees none"] = (await gpu.log("none")).split() == ["sees", "0"]
    seen = (await gpu.log("train")).split()
    gpu.holds["a job with one GPU sees this one alone"] = seen[:3] == ["sees", "1", uuid.removeprefix("GPU-")]


async def check_values(gpu: Gpu) -> None:
    """Compare what is measured while a job trains with what nvidia-smi says."""

    async def is_busy() -> bool:
        return (await gpu.metric("DCGM_FI_DEV_GPU_UTIL", 'gpu="0"') or 0) > 50

    await until(30, is_busy)
    theirs: list[list[float]] = []
    for _ in range(12):
        theirs.append([float(value) for value in smi(*(field for field, _ in VALUES.values()))])
        await asyncio.sleep(1)
    for number, (metric, (_, off)) in enumerate(VALUES.items()):
        ours, values = await gpu.metric(metric, 'gpu="0"'), [row[number] for row in theirs]
        gpu.figures[metric] = {"ours": ours, "nvidia_smi": [min(values), max(values)]}
        agrees = ours is not None and min(values) - off <= ours <= max(values) + off
        gpu.holds[f"{metric} is what nvidia-smi says"] = agrees
    tensor = await gpu.metric("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 'gpu="0"')
    gpu.figures["tensor_active"] = tensor
    await until(90, partial(gpu.ended, "train"))
    status, printed = await gpu.status("train"), (await gpu.log("train")).split()
    gpu.holds["training succeeds"] = status["state"] == "SUCCEEDED" and printed[-2] == "trained"
    gpu.figures["training"] = {"steps": printed[-1], "cause": status["appExitCause"]}
    [role] = (await gpu.server.get("/api/v2/jobs/train/efficiency"))["taskRoles"]
    gpu.figures["efficiency_percent"] = {key: role[key]["mean"] for key in ("gpuPercent", "gpuMemoryPercent")}
    gpu.holds["its efficiency counts the GPU"] = role["gpusMeasured"] == 1 and role["gpuPercent"]["mean"] > 50


async def check_judgement(gpu: Gpu) -> None:
    """Let a job hang in a kernel, one run out of memory, and one forget its GPU."""

    async def hangs() -> list[Any]:
        events = (await gpu.server.get("/api/v2/jobs/spin/events"))["data"]
        return [event for event in events if event["reason"] == "JobHangs"]

    async def idle() -> list[Any]:
        alerts = await gpu.server.get("/api/v2/alerts")
        return [alert["labels"]["job_name"] for alert in alerts if alert["labels"]["alertname"] == IDLE]

    rule = {"text": f"alert: {IDLE}\nexpr: pai_job_idle_seconds >= 30\nseverity: info\n"}
    await gpu.ask("PUT", f"/api/v2/alert-rules/{IDLE}", json.dumps(rule).encode())
    gpu.holds["a kernel that never ends is a hang"] = bool(await until(150, hangs))
    gpu.figures["hanging"] = {"busy_percent": await gpu.metric("DCGM_FI_DEV_GPU_UTIL", 'gpu="0"')}
    gpu.holds["and is not idle"] = await idle() == []
    await stop(gpu.server, "spin")
    await gpu.submit("fill", FILL)
    await until(120, partial(gpu.ended, "fill"))
    cause = (await gpu.status("fill"))["appExitCause"] or {}
    gpu.figures["out_of_memory"] = {key: cause.get(key) for key in ("name", "domain", "line")}
    gpu.holds["a full GPU is the user's fault"] = (cause.get("name"), cause.get("domain")) == ("cuda_oom", "user")
    await gpu.submit("forget", FORGET)
    gpu.holds["a GPU that its job has forgotten is idle"] = await until(180, idle) == ["admin~forget"]
    await stop(gpu.server, "forget")
    healthy = (await gpu.server.get("/api/v2/nodes"))[0]
    gpu.holds["the node is still healthy"] = healthy["healthy"] and not healthy["badDevices"]


async def measure(python: str) -> bool:
    """Try everything, print what holds with the figures, and return whether all of it does."""
    async with platform("--backend", "process", "--app-ports", "none") as server:
        gpu = Gpu(server, python)
        try:
            await check_isolation(gpu)
            await check_values(gpu)
            await check_judgement(gpu)
        finally:
            answer(**gpu.figures, failed=[claim for claim, holds in gpu.holds.items() if not holds], holds=gpu.holds)
    return all(gpu.holds.values())


def main() -> None:
    """Measure with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch for CUDA, for the jobs")
    sys.exit(not asyncio.run(measure(parser.parse_args().python)))


if __name__ == "__main__":
    main()
