"""A Kubernetes without machines, platforms on it, and jobs for them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.kubernetes_fleet import AT_ONCE, Fleet, Kubelets
from bench.server import Server, cpu_s, platform
from openpai.kube.client import KubeClient
from openpai.kube.config import cluster_access
from openpai.kube.objects import NAMESPACES
from tests.kube.server import ControlPlane, control_plane

LIMIT_S = 300.0
Figures = dict[str, Any]


class World:
    """A Kubernetes without machines, and platforms on it."""

    def __init__(self, plane: ControlPlane, client: KubeClient, reports: KubeClient) -> None:
        """The states of pods are reported through `reports`."""
        self.plane = plane
        self.client = client
        self.kubelets = Kubelets(reports)

    async def fleet(self, name: str, count: int, *, claims: bool = False, leases: bool = False) -> Fleet:
        """Add nodes, and a namespace of the same name."""
        await self.client.create(NAMESPACES, {"metadata": {"name": name}})
        fleet = Fleet(self.client, name, self.kubelets.port)
        await fleet.add(count, claims=claims, leases=leases)
        return fleet

    def cpu_s(self) -> float:
        """Return the processor time that etcd and the API server have used."""
        return sum(self.cpus_s().values())

    def cpus_s(self) -> dict[str, float]:
        """Return the processor time that each of them has used."""
        return {name.removeprefix("kube-"): cpu_s(process.pid) for name, process in self.plane.running.items()}

    @asynccontextmanager
    async def platform(
        self, fleet: Fleet, keep: Path | None = None, kubeconfig: Path | None = None
    ) -> AsyncIterator[Server]:
        """Run a server on the nodes of a fleet, as an administrator unless another kubeconfig is given."""
        options = {
            "kubeconfig": kubeconfig or self.plane.kubeconfig,
            "kube-namespace": fleet.name,
            "node-selector": fleet.selector,
        }
        line = [part for option, value in options.items() for part in (f"--{option}", str(value))]
        async with platform("--backend", "kubernetes", *line, keep=keep, under="bench.kubernetes_server") as server:
            yield server


@asynccontextmanager
async def world(garbage_percent: int | None = None) -> AsyncIterator[World]:
    """Start a Kubernetes, whose programs collect garbage once there is so much of it beside what they use (GOGC)."""
    environment = None if garbage_percent is None else {"GOGC": str(garbage_percent)}
    with control_plane(kubelets=False, environment=environment) as plane:
        access = cluster_access(plane.kubeconfig)
        async with (
            KubeClient(access, connections=AT_ONCE) as client,
            KubeClient(access, connections=AT_ONCE) as reports,
        ):
            over_aiohttp(client)
            made = World(plane, client, reports)
            async with made.kubelets.serve(plane.root / "server"):
                yield made


def over_aiohttp(client: KubeClient) -> None:
    """Let a client send its requests as other programs do: through aiohttp, and not over connections of its own."""
    client.connection._pool = False  # noqa: SLF001


def gang(name: str, tasks: int, gpus: int, cpus: int = 1) -> bytes:
    """Return the file of a job of one gang."""
    return f"""protocolVersion: 2
name: {name}
type: job
prerequisites: [{{type: dockerimage, name: image, uri: "registry.example.com/team/training:2026-11"}}]
taskRoles:
  worker:
    instances: {tasks}
    dockerImage: image
    completion: {{minSucceededInstances: {tasks}}}
    resourcePerInstance: {{cpu: {cpus}, memoryMB: 1024, gpu: {gpus}}}
    commands: [python train.py]
""".encode()


async def submit(server: Server, jobs: list[bytes], at_once: int = 8) -> None:
    """Submit jobs over a few connections."""
    left = iter(jobs)

    async def submitter() -> None:
        connection = await server.connect()
        for job in left:
            status, body = await connection.ask("POST", "/api/v2/jobs", job)
            if status != 202:
                raise RuntimeError(f"submission: {status} {body[:500]!r}")
        connection.close()

    async with asyncio.TaskGroup() as submitters:
        for _ in range(at_once):
            submitters.create_task(submitter())


async def notes_when(server: Server, field: str, count: int) -> Figures:
    """Return the notes of the server once it noted so many pods."""
    deadline = time.monotonic() + LIMIT_S
    while len((notes := await server.stalls())[field]) < count:
        if time.monotonic() > deadline:
            jobs = await server.get("/api/v2/jobs?limit=1&state=WAITING")
            detail = await server.get(f"/api/v2/jobs/admin~{jobs[0]['name']}") if jobs else {}
            found = f"after {LIMIT_S:.0f} s only {len(notes[field])} of {count} pods were {field}"
            raise RuntimeError(f"{found}; a job that waits: {json.dumps(detail)[:1500]}")
        await asyncio.sleep(0.25)
    return notes
