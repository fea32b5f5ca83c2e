"""Whole servers with the kubernetes backend, in processes of their own, and their clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from tests.e2e.server import PASSWORD
from tests.fork_server import start_pai
from tests.pauses import Pauses

_PATIENCE_S: Final = 90.0
_JOB: Final = """
protocolVersion: 2
name: {name}
type: job
prerequisites: [{{type: dockerimage, name: image, uri: python}}]
taskRoles:
  worker:
    instances: 2
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 64, gpu: 1}}
    commands: [sleep 600]
"""


@dataclass
class Replica:
    """One of the servers, with a logged-in client."""

    process: subprocess.Popen[bytes]
    client: httpx.AsyncClient
    log: Path

    def leads(self) -> bool:
        """Return whether its log says that it leads and not that it stopped to."""
        lines = self.log.read_text().splitlines()
        printed = [line for line in lines if "this server leads" in line]
        return bool(printed) and "no longer" not in printed[-1]

    async def state(self, name: str) -> str:
        """Return a job's state."""
        return str((await self.get(f"/jobs/{name}"))["jobStatus"]["state"])

    async def get(self, path: str) -> Any:
        """Return what it answers; None while it cannot."""
        answer = await self.client.get(f"/api/v2{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def submit(self, name: str, more: str = "") -> None:
        """Submit a gang of two tasks; `more` are further lines of its file."""
        answer = await self.client.post("/api/v2/jobs", content=_JOB.format(name=name) + more)
        assert answer.status_code == 202, answer.text


async def until(ask: Callable[[], Awaitable[bool]], within_s: float = _PATIENCE_S) -> float:
    """Wait until something holds, and return how long that took."""
    began_s, pauses = time.monotonic(), Pauses()
    while not await ask():
        assert time.monotonic() - began_s < within_s, f"not within {within_s:.0f} s"
        await asyncio.sleep(pauses.next_s())
    return time.monotonic() - began_s


@contextlib.asynccontextmanager
async def server(home: Path, key: str, **options: object) -> AsyncIterator[Replica]:
    """Run `pai up --backend kubernetes` with these options, its data in `home`, until the block ends."""
    ready = home / "ready.json"
    given = {"port": 0, "data-dir": home / "data", "backend": "kubernetes", "ready-file": ready}
    given |= {option.replace("_", "-"): value for option, value in options.items()}
    line = [part for option, value in given.items() for part in (f"--{option}", str(value))]
    with (home / "log").open("wb") as log:
        process = start_pai(["up", *line], {**os.environ, "PAI_ADMIN_PASSWORD": PASSWORD, "PAI_SECRET_KEY": key}, log)

    async def answers() -> bool:
        assert process.poll() is None, (home / "log").read_text()
        return ready.exists()

    try:
        await until(answers)
        async with httpx.AsyncClient(base_url=json.loads(ready.read_text())["url"], timeout=30) as client:
            login = await client.post("/api/v2/authn/basic/login", json={"username": "admin", "password": PASSWORD})
            client.headers["Authorization"] = f"Bearer {login.json()['token']}"
            yield Replica(process, client, home / "log")
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.wait(30)
