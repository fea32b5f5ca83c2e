"""Jobs on Kubernetes: a real API server and etcd, nodes without machines, and `pai up` asked over REST.

- `create`: gangs from submission until their pods are created on 200 nodes, beside bare loops that create the same pods
  from Python over as many connections: `bare` is one through aiohttp, `openpai.kube` the same over the connections of
  our own client, and the others use the libraries that Python programs use (`--clients-python` is a Python that has
  them). They take turns, and the ratios count: on a busy machine all are slower. `by_cpu` is the ratio of the processor
  time of all processes, which the neighbours do not disturb.
- `claims`: the same where each task gets its GPU by a ResourceClaim; a task counts once its pod is bound.
- `death`: from the last renewal of a node's Lease until the pods of its gang are created elsewhere.
- `scale`: 1,000 nodes, 8,000 pods of gangs and 2,000 of others, 2,000 gangs that wait: memory of the server, the time
  from the event that a gang ended to the decision that starts the next one, at 500 events/s, beside the time until a
  process that does nothing but watch hears of the same event, with our server and without it; and a restart.

All four run by default. The API server, etcd, the nodes and the server share the processors of this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from bench import kubernetes_clients
from bench.kubernetes_fleet import AT_ONCE, GPUS, each
from bench.kubernetes_scale import measure_scale
from bench.kubernetes_world import Figures, World, gang, notes_when, submit, world
from bench.server import Server, answer
from openpai.kube.client import KubeClient
from openpai.kube.objects import NAMESPACES, PODS
from openpai.kube.reflector import Reflector
from tests.kube.server import why_not


@dataclass(frozen=True)
class Rate:
    """Pods a second, and what one cost in processor time: of all processes, and of the one that creates them."""

    per_s: float
    ms: float
    own_ms: float


async def bare(made: World, namespace: str, body: str, pods: int, client: KubeClient | None = None) -> Rate:
    """Create pods like `body` as quickly as the API server takes them, through aiohttp or over a client's own way."""
    client = client or made.client
    await made.client.create(NAMESPACES, {"metadata": {"name": namespace}})
    name = json.loads(body)["metadata"]["name"]

    async def create(number: int) -> None:
        await client.create(PODS, body.replace(name, f"{name[:-6]}{number:06}").encode(), namespace)

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
        libraries: dict[str, list[Rate] | str] = {}
        for turn in range(1, options.turns + 1):
            for name in kubernetes_clients.LIBRARIES:
                rate = await library(made, name, f"{name.replace('_', '-')}-{turn}", body, options)
                libraries[name] = rate if isinstance(rate, str) else [*libraries.get(name, []), rate]
            async with KubeClient(made.client.access, connections=AT_ONCE) as client:
                rate = await bare(made, f"own-{turn}", body, options.pods, client)
            libraries["openpai.kube"] = [*libraries.get("openpai.kube", []), rate]
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
        "libraries": _compared(ours, libraries),
        "cpu_ms_per_pod": {"platform": round(ours.ms, 2), "bare": round(loop.ms, 2)},
        "own_cpu_ms_per_pod": {"platform": round(ours.own_ms, 2), "bare": round(loop.own_ms, 2)},
        "turns_per_s": {
            "platform": [round(rate.per_s, 1) for rate in gangs],
            "bare": [round(rate.per_s, 1) for rate in loops],
        },
    }


async def library(made: World, name: str, namespace: str, body: str, options: argparse.Namespace) -> Rate | str:
    """Create pods like `body` with a client library, in a process of its own; return why not if it is missing."""
    await made.client.create(NAMESPACES, {"metadata": {"name": namespace}})
    program = Path(kubernetes_clients.__file__)
    plane_s = made.cpu_s()
    running = await asyncio.create_subprocess_exec(
        options.clients_python, "-P", str(program), name, str(made.plane.kubeconfig), namespace, str(options.pods),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    printed, _ = await running.communicate(body.encode())
    if running.returncode:
        raise RuntimeError(f"the loop over {name} failed")
    found = json.loads(printed)
    if "missing" in found:
        return str(found["missing"])
    return Rate(found["per_s"], (made.cpu_s() - plane_s) / options.pods * 1000 + found["own_ms"], found["own_ms"])


def _compared(ours: Rate, found: dict[str, list[Rate] | str]) -> Figures:
    """Return our pods beside those of each loop; `found` has the reason where a library is missing."""
    figures: Figures = {}
    for name, rates in found.items():
        if isinstance(rates, str):
            figures[name] = {"left_out": rates}
            continue
        loop = _mean(rates)
        figures[name] = {
            "per_s": round(loop.per_s, 1),
            "created_of_it": round(ours.per_s / loop.per_s, 3),
            "created_of_it_by_cpu": round(loop.ms / ours.ms, 3),
            "cpu_ms_per_pod": round(loop.ms, 2),
            "own_cpu_ms_per_pod": round(loop.own_ms, 2),
            "turns_per_s": [round(rate.per_s, 1) for rate in rates],
        }
    return figures


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
    parser.add_argument("--clients-python", default=sys.executable, help="a Python with client libraries of Kubernetes")
    parser.add_argument("--scale-nodes", type=int, default=1000)
    parser.add_argument("--foreign", type=int, default=2000, help="pods of others on these nodes")
    parser.add_argument("--queued", type=int, default=2000)
    parser.add_argument("--events-per-s", type=float, default=500)
    parser.add_argument("--ends", type=int, default=300, help="gangs that end while decisions are timed")
    parser.add_argument("--ends-per-s", type=float, default=5)
    parser.add_argument("--garbage-percent", type=int, default=400, help="GOGC of API server and etcd in scale")
    parser.add_argument("--watcher", action="store_true", help="time the same events in a process that only watches")
    parser.add_argument("--settle-s", type=float, default=10)
    chosen = parser.parse_args()
    if reason := why_not():
        sys.exit(reason)
    answer(**asyncio.run(measure(chosen)))
