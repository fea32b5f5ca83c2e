"""Two whole servers over one PostgreSQL and one Kubernetes: one leads, and the other takes over what it leaves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from cryptography.fernet import Fernet

from openpai.backends.kubernetes.seals import IDENTITY
from openpai.kube.client import KubeClient
from openpai.kube.objects import PODS
from tests.kube.fake_nodes import FakeNodes
from tests.kube.servers import Replica, server, until
from tests.postgres import fresh_database


@pytest.fixture
def database(postgres_server: str) -> Iterator[str]:
    with fresh_database(postgres_server, "replicas") as made:
        yield made


@pytest_asyncio.fixture
async def replicas(
    request: pytest.FixtureRequest,
    database: str,
    kube_api: Path,
    kube_namespace: str,
    kube_nodes: FakeNodes,
    tmp_path: Path,
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
            (tmp_path / name / "data").mkdir(parents=True, mode=0o700)
            if getattr(request, "param", "shared") == "shared":
                # As a volume that every replica mounts.
                (tmp_path / name / "data/logs").symlink_to(logs)
            started.append(await stack.enter_async_context(server(tmp_path / name, key, **shared)))
        yield started[0], started[1]


@pytest.mark.full
@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
async def test_when_the_leader_is_paused_or_killed_the_other_acts(
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
    # How long that may take is tested in virtual time: here it depends on how busy the machine is.
    await until(lambda: _is(second, "after", "RUNNING"))
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


@pytest.mark.full
@pytest.mark.parametrize("replicas", ["shared", "apart"], indirect=True)
async def test_the_log_of_a_running_task_is_read_and_followed_through_any_server(
    replicas: tuple[Replica, Replica], kube: KubeClient, kube_namespace: str, tmp_path: Path
) -> None:
    first, second = replicas
    assert (first.leads(), second.leads()) == (True, False)
    await second.submit("talks")
    await until(lambda: _is(second, "talks", "RUNNING"))
    # Fake nodes have no logs, so it lies where the leader would have put it.
    pods = await kube.list(PODS, kube_namespace)
    attempts = [json.loads(pod.metadata.annotation(IDENTITY))["attempt"] for pod in pods]
    directory = tmp_path / "first/data/logs" / max(attempts)
    directory.mkdir(parents=True, exist_ok=True)
    path = "/api/v2/jobs/talks/attempts/0/taskRoles/worker/taskIndex/1/attempts/0/logs"
    for replica in replicas:
        (directory / "stdout.log").write_text("one\n")
        answer = await replica.client.get(f"{path}/stdout", params={"offset": 1})
        assert (answer.status_code, answer.text, answer.headers["x-log-end"]) == (200, "ne\n", "4")
        async with replica.client.stream("GET", f"{path}/stdout", params={"follow": "true"}) as followed:
            events = followed.aiter_lines()
            await _hears(events, "one\\n")
            with (directory / "stdout.log").open("a") as log:
                log.write(f"for {replica.log.parent.name}\n")
            await _hears(events, f"for {replica.log.parent.name}\\n")
        # The addresses that need no login work at each server, too.
        locations = (await replica.client.get(path)).json()["locations"]
        uri = next(each["uri"] for each in locations if each["name"] == "stdout")
        ticket = await replica.client.get(str(uri), headers={"Authorization": ""})
        assert ticket.status_code == 401
        async with httpx.AsyncClient(base_url=replica.client.base_url) as stranger:
            assert (await stranger.get(str(uri))).text.startswith("one\n")
        found = await replica.client.get(f"{path}/stdout/search", params={"text": "for"})
        assert (found.status_code, f"for {replica.log.parent.name}" in found.text) == (200, True)


async def _hears(events: AsyncIterator[str], words: str) -> None:
    async with asyncio.timeout(60):
        async for line in events:
            if words in line:
                return
    raise AssertionError(f"the stream ended without {words!r}")


async def _is(replica: Replica, job: str, state: str) -> bool:
    return await replica.state(job) == state
