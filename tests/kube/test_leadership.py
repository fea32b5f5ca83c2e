"""Two whole servers over one PostgreSQL and one Kubernetes: one leads, and the other takes over what it leaves."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import pytest_asyncio
from cryptography.fernet import Fernet

from openpai.kube.client import KubeClient
from openpai.kube.objects import PODS
from tests.e2e.server import PAI, PASSWORD
from tests.kube.fake_nodes import FakeNodes
from tests.postgres import fresh_database, postgres

ACTS_WITHIN_S: Final = 10.0
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
        said = [line for line in lines if "this server leads" in line]
        return bool(said) and "no longer" not in said[-1]

    async def state(self, name: str) -> str:
        """Return a job's state."""
        return str((await self.get(f"/jobs/{name}"))["jobStatus"]["state"])

    async def get(self, path: str) -> Any:
        """Return what it answers; None while it cannot."""
        answer = await self.client.get(f"/api/v2{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def submit(self, name: str) -> None:
        """Submit a gang of two tasks."""
        answer = await self.client.post("/api/v2/jobs", content=_JOB.format(name=name))
        assert answer.status_code == 202, answer.text


async def until(ask: Callable[[], Awaitable[bool]], within_s: float = _PATIENCE_S) -> float:
    """Wait until something holds, and return how long that took."""
    began_s = time.monotonic()
    while not await ask():
        assert time.monotonic() - began_s < within_s, f"not within {within_s:.0f} s"
        await asyncio.sleep(0.05)
    return time.monotonic() - began_s


@pytest.fixture(scope="module")
def database_server() -> Iterator[str]:
    with postgres() as url:
        yield url


@pytest.fixture
def database(database_server: str) -> Iterator[str]:
    with fresh_database(database_server, "replicas") as made:
        yield made


@pytest_asyncio.fixture
async def replicas(
    database: str, kube_api: Path, kube_namespace: str, kube_nodes: FakeNodes, tmp_path: Path
) -> AsyncIterator[tuple[Replica, Replica]]:
    await kube_nodes.add(2)
    logs = tmp_path / "logs"
    logs.mkdir()
    key = Fernet.generate_key().decode()
    started: list[Replica] = []

    async def start(name: str) -> Replica:
        home = tmp_path / name
        home.mkdir()
        # Servers share the directory of logs, as a volume that every replica mounts.
        (home / "data").mkdir(mode=0o700)
        (home / "data/logs").symlink_to(logs)
        ready = home / "ready.json"
        options = {
            "port": "0", "data-dir": home / "data", "backend": "kubernetes", "kubeconfig": kube_api,
            "kube-namespace": kube_namespace, "node-selector": kube_nodes.label, "database-url": database,
            "ready-file": ready,
        }  # fmt: skip
        line = [part for option, value in options.items() for part in (f"--{option}", str(value))]
        with (home / "log").open("wb") as log:
            process = subprocess.Popen(  # noqa: ASYNC220  # it only starts
                [*PAI, "up", *line],
                env={**os.environ, "PAI_ADMIN_PASSWORD": PASSWORD, "PAI_SECRET_KEY": key},
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

        async def answers() -> bool:
            assert process.poll() is None, (home / "log").read_text()
            return ready.exists()

        await until(answers)
        client = httpx.AsyncClient(base_url=json.loads(ready.read_text())["url"], timeout=30)
        login = await client.post("/api/v2/authn/basic/login", json={"username": "admin", "password": PASSWORD})
        client.headers["Authorization"] = f"Bearer {login.json()['token']}"
        started.append(Replica(process, client, home / "log"))
        return started[-1]

    yield await start("first"), await start("second")
    for replica in started:
        await replica.client.aclose()
        if replica.process.poll() is None:
            replica.process.send_signal(signal.SIGCONT)
            replica.process.kill()
        replica.process.wait(30)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
async def test_when_the_leader_is_paused_or_killed_the_other_acts_within_ten_seconds(
    replicas: tuple[Replica, Replica], kube: KubeClient, kube_namespace: str, how: signal.Signals
) -> None:
    first, second = replicas
    assert (first.leads(), second.leads()) == (True, False)
    # Any server takes a job, and the leader runs it.
    await second.submit("before")
    await until(lambda: _is(second, "before", "RUNNING"))
    running = {pod.name: pod.uid for pod in await kube.list(PODS, kube_namespace)}
    assert len(running) == 2

    first.process.send_signal(how)
    await second.submit("after")
    took_s = await until(lambda: _is(second, "after", "RUNNING"))
    assert took_s < ACTS_WITHIN_S
    pods = {pod.name: pod.uid for pod in await kube.list(PODS, kube_namespace)}
    assert {name: pods.get(name) for name in running} == running
    assert len(pods) == 4
    if how is signal.SIGKILL:
        return

    first.process.send_signal(signal.SIGCONT)

    async def knows() -> bool:
        return "leads no longer" in first.log.read_text()

    await until(knows)
    # The server that woke up answers, follows, and did nothing to what runs.
    assert await first.state("after") == await first.state("before") == "RUNNING"
    assert {pod.name: pod.uid for pod in await kube.list(PODS, kube_namespace)} == pods
    stopped = await first.client.put("/api/v2/jobs/before/executionType", json={"value": "STOP"})
    assert stopped.status_code == 202
    await until(lambda: _is(second, "before", "STOPPED"))


async def _is(replica: Replica, job: str, state: str) -> bool:
    return await replica.state(job) == state
