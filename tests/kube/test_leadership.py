"""Two whole servers over one PostgreSQL and one Kubernetes: one leads, and the other takes over what it leaves."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
from cryptography.fernet import Fernet

from openpai.kube.client import KubeClient
from openpai.kube.objects import PODS
from tests.kube.fake_nodes import FakeNodes
from tests.kube.servers import Replica, server, until
from tests.postgres import fresh_database, postgres

ACTS_WITHIN_S: Final = 10.0
STARTS_WITHIN_S: Final = 20.0
"""How long a job may take to start beside it on a machine that is busy with other tests."""


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
    shared = {
        "kubeconfig": kube_api, "kube_namespace": kube_namespace, "node_selector": kube_nodes.label,
        "database_url": database,
    }  # fmt: skip
    async with contextlib.AsyncExitStack() as stack:
        started = []
        for name in ("first", "second"):
            # Servers share the directory of logs, as a volume that every replica mounts.
            (tmp_path / name / "data").mkdir(parents=True, mode=0o700)
            (tmp_path / name / "data/logs").symlink_to(logs)
            started.append(await stack.enter_async_context(server(tmp_path / name, key, **shared)))
        yield started[0], started[1]


@pytest.mark.full
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
    assert took_s < ACTS_WITHIN_S + STARTS_WITHIN_S
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
