"""A large cluster: the memory of the server, the time of its decisions, and a restart."""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.kubernetes_fleet import AT_ONCE, GPUS, Fleet, Stored, create, each
from bench.kubernetes_world import Figures, World, gang, notes_when, submit, world
from bench.server import Server, percentile
from openpai.kube.objects import PODS
from openpai.kube.objects.pods import Pod


class Load:
    """The cluster of the large measure: what runs on it, what waits, and the changes of its pods."""

    def __init__(self, made: World, fleet: Fleet, options: argparse.Namespace) -> None:
        self.made = made
        self.fleet = fleet
        self.options = options
        self.gpu_pods: dict[str, list[Pod]] = {}
        """By node, the pods of the gang that has its GPUs."""
        self.others: list[Pod] = []

    async def fill(self, server: Server) -> None:
        """Take every GPU by gangs, one a node, run pods of others on the nodes, and submit gangs that wait."""
        nodes, client = self.fleet.nodes, self.made.client
        await submit(server, [gang(f"runs-{number}", GPUS, 1) for number in range(len(nodes))])
        await notes_when(server, "created", GPUS * len(nodes))
        others = [foreign_pod(number, nodes[number % len(nodes)]) for number in range(self.options.foreign)]
        await each(others, lambda body: create(client, PODS, body, "default"))
        await submit(server, [gang(f"waits-{number}", GPUS, 1) for number in range(self.options.queued)])
        self.others = await client.list(PODS, "default")
        ours = await client.list(PODS, self.fleet.name)
        await each([*self.others, *ours], self.made.kubelets.start)
        for pod in ours:
            self.gpu_pods.setdefault(pod.spec.node_name, []).append(pod)

    async def disturb(self, per_s: float) -> None:
        """Write so many pods a second as they are, until cancelled."""
        stored = Stored(self.made.plane.etcd_url)
        try:
            await stored.read(self.others)
            await self._disturb(stored, per_s)
        finally:
            await stored.close()

    async def _disturb(self, stored: Stored, per_s: float) -> None:
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
                await stored.write(chance.choice(self.others))

        async with asyncio.TaskGroup() as changers:
            for _ in range(AT_ONCE):
                changers.create_task(changer())

    async def end_gang(self, node: str) -> None:
        """Let the gang that has a node's GPUs end."""
        await each(self.gpu_pods.pop(node), self.made.kubelets.finish, GPUS)

    async def end_gangs(self, count: int, per_s: float) -> None:
        """Let so many gangs end, one after the other."""
        for node in list(self.gpu_pods)[:count]:
            await asyncio.gather(self.end_gang(node), asyncio.sleep(1 / per_s))


def foreign_pod(number: int, node: str) -> dict[str, Any]:
    """Return a pod of another user of the cluster, such as one of a DaemonSet."""
    resources = {"requests": {"cpu": "100m", "memory": "100Mi"}}
    container = {"name": "agent", "image": "registry.example.com/agent:1", "resources": resources}
    labels = {"app": "agent"}
    return {
        "metadata": {"name": f"agent-{number}", "labels": labels},
        "spec": {"nodeName": node, "containers": [container]},
    }


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
    # Each gang that ends makes about five events a pod, too.
    disturbing = asyncio.create_task(load.disturb(options.events_per_s - 5 * GPUS * options.ends_per_s))
    await asyncio.sleep(2)
    first, cpu_s, began = await server.stalls(), server.cpu_s(), time.monotonic()
    await load.end_gangs(options.ends, options.ends_per_s)
    took = time.monotonic() - began
    last = await server.stalls()
    cpu_s = server.cpu_s() - cpu_s
    disturbing.cancel()
    await asyncio.gather(disturbing, return_exceptions=True)
    longest_collection_s = max(first["longest_collection"], last["longest_collection"])
    deadline = time.monotonic() + 30
    while len(last["decisions"]) - len(before["decisions"]) < options.ends and time.monotonic() < deadline:
        await asyncio.sleep(0.5)
        last = last | {"decisions": (await server.stalls())["decisions"]}
    made = last["decisions"][len(before["decisions"]) :]
    times, own = [late * 1000 for _, late, _ in made], [cpu * 1000 for _, _, cpu in made]
    return {
        "scale_memory_mb": settled_mb,
        "scale_memory_most_mb": server.memory_most_mb(),
        "events_per_s": round((last["events"] - first["events"]) / took, 1),
        "decisions": len(times),
        "decision_p50_ms": round(percentile(times, 0.5), 1),
        "decision_p99_ms": round(percentile(times, 0.99), 1),
        "decision_own_cpu_p50_ms": round(percentile(own, 0.5), 1),
        "decision_own_cpu_p99_ms": round(percentile(own, 0.99), 1),
        "longest_collection_ms": round(longest_collection_s * 1000, 1),
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
            "cold_decision_cpu_s": round(notes["first_launch_cpu_s"], 2),
            "cold_first_pod_s": round(notes["created"][0] - began, 2),
            "cold_cpu_s": round(cpu_s, 2),
            "cold_memory_mb": server.memory_mb(),
        }
