"""Jobs on Kubernetes: a real API server and etcd, nodes without machines, and `pai up` asked over REST.

- `create`: gangs from submission until their pods are created on 200 nodes, beside a bare loop that creates the same
  pods from Python over as many connections. The two take turns, and their ratio counts: on a busy machine both are
  slower. `by_cpu` is the ratio of the processor time of all processes, which the neighbours do not disturb.
- `claims`: the same where each task gets its GPU by a ResourceClaim; a task counts once its pod is bound.
- `death`: from the last renewal of a node's Lease until the pods of its gang are created elsewhere.
- `scale`: 1,000 nodes, 10,000 pods that run, 2,000 gangs that wait: memory of the server, the time from the event that
  a gang ended to the decision that starts the next one, at 500 events/s, and a restart.

All four run by default. The API server, etcd, the nodes and the server share the processors of this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.kubernetes_fleet import AT_ONCE, GPUS, Fleet, Kubelets, each
from bench.server import Server, answer, cpu_s, percentile, platform
from openpai.kube.client import KubeClient
from openpai.kube.config import cluster_access
from openpai.kube.objects import NAMESPACES, PODS
from openpai.kube.objects.pods import Pod
from openpai.kube.reflector import Reflector
from tests.kube.server import ControlPlane, control_plane, why_not

LIMIT_S = 40.0
Figures = dict[str, Any]


class World:
    """A Kubernetes without machines, and platforms on it."""

    def __init__(self, plane: ControlPlane, client: KubeClient) -> None:
        self.plane = plane
        self.client = client
        self.kubelets = Kubelets(client)

    async def fleet(self, name: str, count: int, *, claims: bool = False, leases: bool = False) -> Fleet:
        """Add nodes, and a namespace of the same name."""
        await self.client.create(NAMESPACES, {"metadata": {"name": name}})
        fleet = Fleet(self.client, name, self.kubelets.port)
        await fleet.add(count, claims=claims, leases=leases)
        return fleet

    def cpu_s(self) -> float:
        """Return the processor time that etcd and the API server have used."""
        return sum(cpu_s(process.pid) for process in self.plane.running.values())

    @asynccontextmanager
    async def platform(self, fleet: Fleet, keep: Path | None = None) -> AsyncIterator[Server]:
        """Run a server on the nodes of a fleet."""
        options = {"kubeconfig": self.plane.kubeconfig, "kube-namespace": fleet.name, "node-selector": fleet.selector}
        line = [part for option, value in options.items() for part in (f"--{option}", str(value))]
        async with platform("--backend", "kubernetes", *line, keep=keep, under="bench.kubernetes_server") as server:
            yield server


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """Start a Kubernetes."""
    with control_plane() as plane:
        async with KubeClient(cluster_access(plane.kubeconfig), connections=AT_ONCE) as client:
            made = World(plane, client)
            async with made.kubelets.serve(plane.root / "server"):
                yield made


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


@dataclass(frozen=True)
class Rate:
    """Pods a second, and what one cost in processor time: of all processes, and of the one that creates them."""

    per_s: float
    ms: float
    own_ms: float


async def bare(made: World, namespace: str, body: str, pods: int) -> Rate:
    """Create pods like `body` as quickly as the API server takes them."""
    await made.client.create(NAMESPACES, {"metadata": {"name": namespace}})
    name = json.loads(body)["metadata"]["name"]

    async def create(number: int) -> None:
        await made.client.create(PODS, body.replace(name, f"{name[:-6]}{number:06}").encode(), namespace)

    plane_s, own_s, began = made.cpu_s(), time.process_time(), time.monotonic()
    await each(range(pods), create)
    took, own_s = time.monotonic() - began, time.process_time() - own_s
    return Rate(pods / took, (made.cpu_s() - plane_s + own_s) / pods * 1000, own_s / pods * 1000)


async def placed(made: World, server: Server, options: argparse.Namespace, field: str) -> Rate:
    """Submit gangs of one GPU a task, and wait until their pods are there."""
    gangs = [gang(f"gang-{number}", options.gang, 1) for number in range(options.pods // options.gang)]
    pods = len(gangs) * options.gang
    before = len((await server.stalls())[field])
    plane_s, server_s, own_s, began = made.cpu_s(), server.cpu_s(), time.process_time(), time.monotonic()
    await submit(server, gangs)
    notes = await notes_when(server, field, before + pods)
    server_s = server.cpu_s() - server_s
    all_s = made.cpu_s() - plane_s + server_s + time.process_time() - own_s
    return Rate(pods / (notes[field][-1] - began), all_s / pods * 1000, server_s / pods * 1000)


async def measure_creation(options: argparse.Namespace) -> Figures:
    """Compare the pods of gangs with the same pods from a bare loop, before and after."""
    async with world() as made:
        async with made.platform(await made.fleet("warm", options.gang // GPUS)) as server:
            await submit(server, [gang("warm", options.gang, 1)])
            body = (await notes_when(server, "created", options.gang))["body"]
        await bare(made, "warm-up", body, options.pods // 4)
        loops, gangs = [await bare(made, "bare-0", body, options.pods)], []
        for turn in range(1, options.turns + 1):
            async with made.platform(await made.fleet(f"gangs-{turn}", options.nodes)) as server:
                gangs.append(await placed(made, server, options, "created"))
            loops.append(await bare(made, f"bare-{turn}", body, options.pods))
    loop, ours = _mean(loops), _mean(gangs)
    return {
        "gangs_of": options.gang,
        "bytes_of_a_pod": len(body),
        "created_per_s": round(ours.per_s, 1),
        "bare_per_s": round(loop.per_s, 1),
        "created_of_bare": round(ours.per_s / loop.per_s, 3),
        "created_of_bare_by_cpu": round(loop.ms / ours.ms, 3),
        "cpu_ms_per_pod": {"platform": round(ours.ms, 2), "bare": round(loop.ms, 2)},
        "own_cpu_ms_per_pod": {"platform": round(ours.own_ms, 2), "bare": round(loop.own_ms, 2)},
        "turns_per_s": {
            "platform": [round(rate.per_s, 1) for rate in gangs],
            "bare": [round(rate.per_s, 1) for rate in loops],
        },
    }


def _mean(rates: list[Rate]) -> Rate:
    return Rate(*(fmean(getattr(rate, field) for rate in rates) for field in ("per_s", "ms", "own_ms")))


async def measure_claims(options: argparse.Namespace) -> Figures:
    """Place gangs whose tasks get their GPUs by claims."""
    async with world() as made:
        fleet = await made.fleet("claims", options.nodes, claims=True)
        async with made.platform(fleet) as server:
            rate = await placed(made, server, options, "bound")
    return {
        "claims_per_s": round(rate.per_s, 1),
        "claims_cpu_ms_per_pod": round(rate.ms, 2),
        "claims_own_cpu_ms_per_pod": round(rate.own_ms, 2),
    }


async def measure_death(options: argparse.Namespace) -> Figures:
    """Let the node of a gang die."""
    async with world() as made:
        fleet = await made.fleet("death", 4, leases=True)
        beating = asyncio.create_task(fleet.beat())
        async with made.platform(fleet) as server, Reflector(made.client, PODS, fleet.name) as pods:
            await submit(server, [gang("gang", 2, 4)])
            changes = pods.subscribe()
            before: set[str] = set()
            async for change in changes:
                if change.new is not None and not change.new.has_ended and change.new.name not in before:
                    before.add(change.new.name)
                    await made.kubelets.start(change.new)
                    if len(before) == 2:
                        dead = change.new.spec.node_name
                        break
            await asyncio.sleep(12)  # every Lease is renewed once more at least
            fleet.silent.add(dead)
            began = time.monotonic()
            elsewhere = 0
            async for change in changes:
                found = change.new
                if change.old is None and found is not None and found.name not in before:
                    before.add(found.name)
                    elsewhere += found.spec.node_name != dead
                    if elsewhere == 2:
                        break
            took = time.monotonic() - began
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
    return {"requeued_s": round(took, 1)}


class Load:
    """The cluster of the large measure: what runs on it, what waits, and the changes of its pods."""

    def __init__(self, made: World, fleet: Fleet, options: argparse.Namespace) -> None:
        self.made = made
        self.fleet = fleet
        self.options = options
        self.gpu_pods: dict[str, list[Pod]] = {}
        """By node, the pods of the gang that has its GPUs."""
        self.others: list[Pod] = []
        self.reported = 0

    async def fill(self, server: Server) -> None:
        """Take every GPU by gangs of two tasks, and submit gangs of tasks without GPUs, and gangs that wait."""
        nodes, size = self.options.scale_nodes, 100
        without = (self.options.scale_pods - 2 * nodes) // size
        taking = [gang(f"runs-{number}", 2, GPUS // 2) for number in range(nodes)]
        taking += [gang(f"cpus-{number}", size, 0) for number in range(without)]
        await submit(server, taking)
        await notes_when(server, "created", 2 * nodes + without * size)
        await submit(server, [gang(f"waits-{number}", 2, GPUS // 2) for number in range(self.options.queued)])
        pods = await self.made.client.list(PODS, self.fleet.name)
        await each(pods, self.made.kubelets.start)
        for pod in pods:
            if pod.spec.containers[0].resources.limits.get("nvidia.com/gpu"):
                self.gpu_pods.setdefault(pod.spec.node_name, []).append(pod)
            else:
                self.others.append(pod)

    async def disturb(self, per_s: float) -> None:
        """Change so many pods a second in ways that change nothing, until cancelled."""
        chance = random.Random(1)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        due = 0

        async def changer() -> None:
            nonlocal due
            while True:
                due += 1
                number = due
                await asyncio.sleep(max(0.0, began_s + number / per_s - loop.time()))
                await self.made.kubelets.heartbeat(chance.choice(self.others), number)

        async with asyncio.TaskGroup() as changers:
            for _ in range(AT_ONCE):
                changers.create_task(changer())

    async def end_gang(self, node: str) -> None:
        """Let the gang that has a node's GPUs end."""
        for pod in self.gpu_pods.pop(node):
            await self.made.kubelets.finish(pod)

    async def end_gangs(self, count: int, per_s: float) -> None:
        """Let so many gangs end, one after the other."""
        for node in list(self.gpu_pods)[:count]:
            await asyncio.gather(self.end_gang(node), asyncio.sleep(1 / per_s))


async def measure_scale(options: argparse.Namespace) -> Figures:
    """Measure a large cluster."""
    root = Path(tempfile.mkdtemp(prefix="pai-bench-"))
    try:
        async with world() as made:
            fleet = await made.fleet("scale", options.scale_nodes)
            load = Load(made, fleet, options)
            async with made.platform(fleet, keep=root) as server:
                began = time.monotonic()
                await load.fill(server)
                filled_s = time.monotonic() - began
                figures = {"filled_s": round(filled_s, 1), **await decisions(load, server)}
            return figures | await cold_start(load, root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


async def decisions(load: Load, server: Server) -> Figures:
    """End gangs while other pods change, and return how long decisions took."""
    options = load.options
    await asyncio.sleep(options.settle_s)
    before = await server.stalls()
    settled_mb = server.memory_mb()
    # Each gang that ends makes about a dozen events, too.
    disturbing = asyncio.create_task(load.disturb(options.events_per_s - 12 * options.ends_per_s))
    await asyncio.sleep(2)
    first, cpu_s, began = await server.stalls(), server.cpu_s(), time.monotonic()
    await load.end_gangs(options.ends, options.ends_per_s)
    took = time.monotonic() - began
    last = await server.stalls()
    cpu_s = server.cpu_s() - cpu_s
    disturbing.cancel()
    await asyncio.gather(disturbing, return_exceptions=True)
    deadline = time.monotonic() + 30
    while len(last["decisions"]) - len(before["decisions"]) < options.ends and time.monotonic() < deadline:
        await asyncio.sleep(0.5)
        last = last | {"decisions": (await server.stalls())["decisions"]}
    times = [late * 1000 for _, late in last["decisions"][len(before["decisions"]) :]]
    return {
        "scale_memory_mb": settled_mb,
        "scale_memory_most_mb": server.memory_most_mb(),
        "events_per_s": round((last["events"] - first["events"]) / took, 1),
        "decisions": len(times),
        "decision_p50_ms": round(percentile(times, 0.5), 1),
        "decision_p99_ms": round(percentile(times, 0.99), 1),
        "server_cores": round(cpu_s / took, 2),
    }


async def cold_start(load: Load, root: Path) -> Figures:
    """End a gang while no server runs; return how long a new one takes to start the next gang."""
    await load.end_gang(next(iter(load.gpu_pods)))
    began = time.monotonic()
    async with load.made.platform(load.fleet, keep=root) as server:
        ready_s = time.monotonic() - began
        notes = await notes_when(server, "created", 1)
        cpu_s = server.cpu_s()
        return {
            "cold_ready_s": round(ready_s, 2),
            "cold_decision_s": round(notes["first_launch"] - began, 2),
            "cold_first_pod_s": round(notes["created"][0] - began, 2),
            "cold_cpu_s": round(cpu_s, 2),
            "cold_memory_mb": server.memory_mb(),
        }


MEASURES = {
    "create": measure_creation,
    "claims": measure_claims,
    "death": measure_death,
    "scale": measure_scale,
}


async def measure(options: argparse.Namespace) -> Figures:
    """Carry out the chosen measurements, one after the other."""
    figures: Figures = {"nodes": options.nodes}
    for name in options.what.split(","):
        print(f"measuring {name} ...", file=sys.stderr)
        figures |= await MEASURES[name](options)
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", default=",".join(MEASURES), help="comma list of create, claims, death, scale")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--pods", type=int, default=1600)
    parser.add_argument("--gang", type=int, default=64, help="tasks of a gang, each with one GPU")
    parser.add_argument("--turns", type=int, default=2, help="how often the platform and the bare loop take turns")
    parser.add_argument("--scale-nodes", type=int, default=1000)
    parser.add_argument("--scale-pods", type=int, default=10_000)
    parser.add_argument("--queued", type=int, default=2000)
    parser.add_argument("--events-per-s", type=float, default=500)
    parser.add_argument("--ends", type=int, default=150, help="gangs that end while decisions are timed")
    parser.add_argument("--ends-per-s", type=float, default=10)
    parser.add_argument("--settle-s", type=float, default=10)
    chosen = parser.parse_args()
    if reason := why_not():
        sys.exit(reason)
    answer(**asyncio.run(measure(chosen)))
