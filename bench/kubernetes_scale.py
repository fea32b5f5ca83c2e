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

from bench.kubernetes_decisions import Decision, devices_of
from bench.kubernetes_fleet import AT_ONCE, GPUS, Fleet, Stored, answered, create, each
from bench.kubernetes_world import Figures, World, gang, notes_when, submit, world
from bench.server import Server, percentile
from openpai.kube.objects import PODS
from openpai.kube.objects.pods import Pod

BEHIND_MAX = 50
"""So many pods are written before the API server has to have seen them. It takes in changes one by one, and where cores
are few etcd is quicker: the growth of that backlog would be all that is measured."""


class Load:
    """The cluster of the large measure: what runs on it, what waits, and the changes of its pods."""

    def __init__(self, made: World, fleet: Fleet, options: argparse.Namespace) -> None:
        self.made = made
        self.fleet = fleet
        self.options = options
        self.gpu_pods: dict[str, list[Pod]] = {}
        """By node, the pods of the gang that has its GPUs."""
        self.others: list[Pod] = []
        self.stored_at: dict[tuple[str, int], float] = {}
        """By node and device, when the API server had answered the report that the pod ended that had it."""

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
        may_write = asyncio.Event()
        may_write.set()

        async def changer() -> None:
            nonlocal due
            while True:
                due += 1
                number = due
                await asyncio.sleep(max(0.0, began_s + number / per_s - loop.time()))
                await may_write.wait()
                pod = chance.choice(self.others)
                version = await stored.write(pod)
                if number % BEHIND_MAX == 0:
                    may_write.clear()
                    await self._seen_by_api_server(pod, version)
                    may_write.set()

        async with asyncio.TaskGroup() as changers:
            for _ in range(AT_ONCE):
                changers.create_task(changer())

    async def _seen_by_api_server(self, pod: Pod, version: int) -> None:
        """Wait until the watches of the API server are as new as a version."""
        path = PODS.path(pod.namespace, pod.name)
        await answered(lambda: self.made.client.raw("GET", path, resourceVersion=str(version)))

    async def end_gang(self, node: str) -> None:
        """Let the gang that has a node's GPUs end."""
        await each(self.gpu_pods.pop(node), self._end, GPUS)

    async def _end(self, pod: Pod) -> None:
        await self.made.kubelets.finish(pod)
        self.stored_at.update(dict.fromkeys(devices_of(pod), time.monotonic()))

    async def end_gangs(self, count: int, per_s: float) -> None:
        """Let so many gangs end, each when it is due: a busy machine does not make them fewer."""
        began_s = time.monotonic()
        async with asyncio.TaskGroup() as ends:
            for number, node in enumerate(list(self.gpu_pods)[:count]):
                await asyncio.sleep(max(0.0, began_s + number / per_s - time.monotonic()))
                ends.create_task(self.end_gang(node))


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
    """End gangs while other pods change, and return how long decisions took, and their parts.

    A decision starts a gang, whose devices may be of several nodes: the event that it needed is the last of those that
    freed one of them. `decision` is the strictest measure: from the API server's answer to the report of that end,
    when the event is stored, until the decision. It has three parts: `stored_to_arrived` is up to the event's receipt
    by the server's process, so the API server's watch and the connection; it may be below 0, as the answer and the
    event are on their way together. `arrived_to_turn` is until the turn begins that makes the decision, as an earlier
    one ends first, and `turn_to_decision` is that turn. The last two are `arrived_to_decision`, and
    `arrived_to_decision_own_cpu` is what the loop's thread computed meanwhile, for this and for anything else.
    `loop_late` is how late the loop came to its ticks: an event may have waited in the socket for as long.
    """
    options = load.options
    await asyncio.sleep(options.settle_s)
    before = await server.stalls()
    settled_mb = server.memory_mb()
    # Each gang that ends makes about five events a pod, too.
    disturbing = asyncio.create_task(load.disturb(options.events_per_s - 5 * GPUS * options.ends_per_s))
    await asyncio.sleep(2)
    first, began = await server.stalls(), time.monotonic()
    cpu_s = _cpu_s(load, server)
    await load.end_gangs(options.ends, options.ends_per_s)
    took = time.monotonic() - began
    last = await server.stalls()
    cores = {name: round((now_s - cpu_s[name]) / took, 2) for name, now_s in _cpu_s(load, server).items()}
    disturbing.cancel()
    await asyncio.gather(disturbing, return_exceptions=True)
    late = last["late"]
    longest_collection_s = max(first["longest_collection"], last["longest_collection"])
    deadline = time.monotonic() + 30
    while len(last["decisions"]) - len(before["decisions"]) < options.ends and time.monotonic() < deadline:
        await asyncio.sleep(0.5)
        last = last | {"decisions": (await server.stalls())["decisions"]}
    made = [Decision(*each) for each in last["decisions"][len(before["decisions"]) :]]
    stored = [max((load.stored_at.get((node, device), 0.0) for node, device in each.devices)) for each in made]
    both = [(each, at) for each, at in zip(made, stored, strict=True) if at]
    parts: dict[str, list[float]] = {
        "decision": [each.made_at - at for each, at in both],
        "stored_to_arrived": [each.arrived_at - at for each, at in both],
        "arrived_to_decision": [each.made_at - each.arrived_at for each in made],
        "arrived_to_decision_own_cpu": [each.own_s for each in made],
        "arrived_to_turn": [each.turn_at - each.arrived_at for each in made],
        "turn_to_decision": [each.made_at - each.turn_at for each in made],
        "loop_late": late,
    }
    return {
        "scale_memory_mb": settled_mb,
        "scale_memory_most_mb": server.memory_most_mb(),
        "events_per_s": round((last["events"] - first["events"]) / took, 1),
        "decisions": len(made),
        **{
            f"{name}_p{share}_ms": round(percentile(seconds, share / 100) * 1000, 1)
            for name, seconds in parts.items()
            for share in (50, 90, 99)
        },
        "longest_collection_ms": round(longest_collection_s * 1000, 1),
        "cores": cores,
    }


def _cpu_s(load: Load, server: Server) -> dict[str, float]:
    return {"server": server.cpu_s(), "api_server_and_etcd": load.made.cpu_s(), "bench": time.process_time()}


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
