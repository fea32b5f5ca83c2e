"""A large cluster: the memory of the server, the time of its decisions, and a restart."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.kubernetes_decisions import Decision, Device, devices_of
from bench.kubernetes_fleet import AT_ONCE, GPUS, Etcd, Fleet, answered, create, each
from bench.kubernetes_watcher import BareWatcher, bare_watcher
from bench.kubernetes_world import Figures, World, gang, notes_when, submit, world
from bench.server import Server, cpu_s, percentile
from openpai.backends.kubernetes.names import FINALIZER
from openpai.kube.client import STRATEGIC_PATCH
from openpai.kube.objects import PODS
from openpai.kube.objects.pods import Pod

BEHIND_MAX = 50
"""So many pods are written before the API server has to have seen them. It takes in changes one by one, and where cores
are few etcd is quicker: the growth of that backlog would be all that is measured."""


class Stored(NamedTuple):
    """The end of a pod, as the API server has it."""

    at: float
    """When it had answered the report."""
    pod: str


class Load:
    """The cluster of the large measure: what runs on it, what waits, and the changes of its pods."""

    def __init__(self, made: World, fleet: Fleet, options: argparse.Namespace) -> None:
        self.made = made
        self.fleet = fleet
        self.options = options
        self.gpu_pods: dict[str, list[Pod]] = {}
        """By node, the pods of the gang that has its GPUs."""
        self.others: list[Pod] = []
        self.stored: dict[Device, Stored] = {}
        """By device, the end of the last pod that had it."""

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
        etcd = Etcd(self.made.plane.etcd_url)
        try:
            await etcd.read(self.others)
            await self._disturb(etcd, per_s)
        finally:
            etcd.close()

    async def _disturb(self, etcd: Etcd, per_s: float) -> None:
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
                version = await etcd.write(pod)
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
        self.stored.update(dict.fromkeys(devices_of(pod), Stored(time.monotonic(), pod.name)))

    async def end_gangs(self, count: int, per_s: float, end: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        """Let the gangs of so many nodes end, each when it is due: a busy machine does not make them fewer."""
        began_s = time.monotonic()
        async with asyncio.TaskGroup() as ends:
            for number, node in enumerate(list(self.gpu_pods)[:count]):
                await asyncio.sleep(max(0.0, began_s + number / per_s - time.monotonic()))
                ends.create_task(end(node))

    async def replace_gang(self, node: str, body: str) -> None:
        """Let the gang that has a node's GPUs end, remove its pods and create others, with bare requests."""
        client, namespace, pods = self.made.client, self.fleet.name, self.gpu_pods[node]
        await self.end_gang(node)

        async def remove(pod: Pod) -> None:
            change = {"uid": pod.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER], "managedFields": [{}]}
            named: dict[str, Any] = {"how": STRATEGIC_PATCH, "only_metadata": True}
            await answered(lambda: client.delete(PODS, pod.name, namespace, uid=pod.uid, grace_s=0))
            await answered(lambda: client.patch(PODS, pod.name, {"metadata": change}, namespace, **named))
            await create(client, PODS, renamed(body, f"again-{pod.uid}", node), namespace)

        await each(pods, remove, GPUS)


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
        async with world(options.garbage_percent) as made:
            fleet = await made.fleet("scale", options.scale_nodes)
            load = Load(made, fleet, options)
            # As the chart runs it. A token costs the API server less than a client certificate.
            kubeconfig = made.plane.kubeconfig_for_account(fleet.name)
            async with made.platform(fleet, root, kubeconfig) as server:
                began = time.monotonic()
                await load.fill(server)
                filled_s = time.monotonic() - began
                figures = {"filled_s": round(filled_s, 1), **await decisions(load, server)}
                body = (await server.stalls())["body"]
            return figures | await cold_start(load, root, kubeconfig) | await without_server(load, body)
    finally:
        shutil.rmtree(root, ignore_errors=True)


async def decisions(load: Load, server: Server) -> Figures:
    """End gangs while other pods change, and return how long decisions took, and their parts.

    A decision starts a gang, whose devices may be of several nodes: the event that it needed is the last of those that
    freed one of them. There are three figures of it, by who could make it better:

    - `decision`, the strictest: from the API server's answer to the report of that end, when the event is stored, until
      the decision. It has two parts:
    - `stored_to_arrived` is up to the event's receipt by the server's process, so the API server's watch and the
      connection; it may be below 0, as the answer and the event are on their way together. `stored_to_watcher` is the
      same for a process that does nothing but watch, in the same run; only where it is asked for, as it costs too.
    - `arrived_to_decision` is the server's: `arrived_to_turn` until the turn begins that makes the decision, as an
      earlier one ends first, and `turn_to_decision`. `arrived_to_decision_own_cpu` is what the loop's thread computed
      meanwhile, for this and for anything else; the rest it waited for a core, or for the disk.

    `loop_late` is how late the loop came to its ticks: an event may have waited in the socket for as long.
    """
    options = load.options
    await asyncio.sleep(options.settle_s)
    before = await server.stalls()
    settled_mb = server.memory_mb()
    async with _watcher(load) as watcher, _disturbed(load):
        first, began = await server.stalls(), time.monotonic()
        cpu_s = _cpu_s(load, watcher, server)
        await load.end_gangs(options.ends, options.ends_per_s, load.end_gang)
        took = time.monotonic() - began
        # The notes are thousands of numbers, which the server makes a text of when it is asked for them.
        most_mb = server.memory_most_mb()
        last = await server.stalls()
        cores = _cores(cpu_s, _cpu_s(load, watcher, server), took)
    late = last["late"]
    longest_collection_s = max(first["longest_collection"], last["longest_collection"])
    deadline = time.monotonic() + 30
    while len(last["decisions"]) - len(before["decisions"]) < options.ends and time.monotonic() < deadline:
        await asyncio.sleep(0.5)
        last = last | {"decisions": (await server.stalls())["decisions"]}
    made = [Decision(*each) for each in last["decisions"][len(before["decisions"]) :]]
    both = [(each, max(ends)) for each in made if (ends := [load.stored[at] for at in _known(each, load)])]
    parts: dict[str, list[float]] = {
        "decision": [each.made_at - end.at for each, end in both],
        "stored_to_arrived": [each.arrived_at - end.at for each, end in both],
        **({"stored_to_watcher": _to_watcher(watcher, [end for _, end in both])} if watcher else {}),
        "arrived_to_decision": [each.made_at - each.arrived_at for each in made],
        "arrived_to_decision_own_cpu": [each.own_s for each in made],
        "arrived_to_turn": [each.turn_at - each.arrived_at for each in made],
        "turn_to_decision": [each.made_at - each.turn_at for each in made],
        "loop_late": late,
    }
    return {
        "scale_memory_mb": settled_mb,
        "scale_memory_most_mb": most_mb,
        "events_per_s": round((last["events"] - first["events"]) / took, 1),
        "decisions": len(made),
        **_percentiles(parts),
        "longest_collection_ms": round(longest_collection_s * 1000, 1),
        "cores": cores,
    }


async def without_server(load: Load, body: str) -> Figures:
    """Let gangs end as before while no server runs, and return how long the ends took to a process that only watches.

    Their pods are removed and created again by bare requests, so the API server and etcd have as much to do for that,
    and no Secrets, services and logs. No server on these cores could hear of an end earlier.
    """
    options = load.options
    ends: list[Stored] = []

    async def replace(node: str) -> None:
        pods = load.gpu_pods[node]
        await load.replace_gang(node, body)
        ends.append(max(load.stored[device] for pod in pods for device in devices_of(pod)))

    async with bare_watcher(load.made.plane.kubeconfig) as watcher, _disturbed(load):
        cpu_s, began = _cpu_s(load, watcher), time.monotonic()
        await load.end_gangs(options.ends // 3, options.ends_per_s, replace)
        cores = _cores(cpu_s, _cpu_s(load, watcher), time.monotonic() - began)
    found = _percentiles({"without_server_stored_to_watcher": _to_watcher(watcher, ends)})
    return {**found, "without_server_cores": cores}


@asynccontextmanager
async def _disturbed(load: Load) -> AsyncIterator[None]:
    options = load.options
    # Each gang that ends makes four events a pod, too: its end, its deletion, that it is gone, and another pod.
    disturbing = asyncio.create_task(load.disturb(options.events_per_s - 4 * GPUS * options.ends_per_s))
    try:
        await asyncio.sleep(2)
        yield
    finally:
        disturbing.cancel()
        await asyncio.gather(disturbing, return_exceptions=True)


@asynccontextmanager
async def _watcher(load: Load) -> AsyncIterator[BareWatcher | None]:
    if not load.options.watcher:
        yield None
        return
    async with bare_watcher(load.made.plane.kubeconfig) as watcher:
        yield watcher


def _to_watcher(watcher: BareWatcher, ends: list[Stored]) -> list[float]:
    return [watcher.arrived[end.pod] - end.at for end in ends if end.pod in watcher.arrived]


def _known(decision: Decision, load: Load) -> list[Device]:
    return [(node, device) for node, device in decision.devices if (node, device) in load.stored]


def _percentiles(parts: Mapping[str, list[float]]) -> Figures:
    return {
        f"{name}_p{share}_ms": round(percentile(seconds, share / 100) * 1000, 1)
        for name, seconds in parts.items()
        for share in (50, 90, 99)
    }


def _cpu_s(load: Load, watcher: BareWatcher | None, server: Server | None = None) -> dict[str, float]:
    ours = {} if server is None else {"server": server.cpu_s()}
    watching = {} if watcher is None else {"watcher": cpu_s(watcher.pid)}
    return {**ours, **load.made.cpus_s(), "bench": time.process_time(), **watching}


def _cores(before_s: Mapping[str, float], after_s: Mapping[str, float], took: float) -> Figures:
    return {name: round((now_s - before_s[name]) / took, 2) for name, now_s in after_s.items()}


def renamed(body: str, name: str, node: str) -> dict[str, Any]:
    """Return a pod like the one in `body` with another name, on another node."""
    pod: dict[str, Any] = json.loads(body)
    pod["metadata"]["name"] = name
    pod["spec"]["nodeName"] = node
    return pod


async def cold_start(load: Load, root: Path, kubeconfig: Path) -> Figures:
    """End a gang while no server runs; return how long a new one takes to start the next gang."""
    await load.end_gang(next(iter(load.gpu_pods)))
    began = time.monotonic()
    async with load.made.platform(load.fleet, root, kubeconfig) as server:
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
