"""Kubernetes: what decoding costs, how quickly pods are created and cached, and whether a cache stays true for long.

Needs the binaries of KUBEBUILDER_ASSETS, but for `--what decode`. Every figure comes from a real API server and etcd on
this machine, which take most of its processors: compare figures of one run with each other.

`--what decode`: a list of pods to objects, beside json and, where installed, lightkube and the official client.
`--what create`: pods created by a bare loop over our client: what a scheduler could reach here at best.
`--what cache`: a cache of pods from nothing to complete, and the delay from a change until the cache reports it.
`--what soak`: random changes while a proxy resets, freezes and expires watches; each check compares with a fresh list.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import resource
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec

from bench.kubernetes_soak import soak
from bench.server import answer
from openpai.kube.client import KubeClient
from openpai.kube.config import cluster_access
from openpai.kube.objects import NAMESPACES, PODS
from openpai.kube.reflector import Reflector


def a_pod(name: str, node: str = "") -> dict[str, Any]:
    """Return a pod like those of a training job."""
    env = [{"name": f"PAI_HOST_IP_worker_{number}", "value": f"10.0.0.{number}"} for number in range(8)]
    room = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}
    container = {
        "name": "task",
        "image": "registry.example.com/team/training:2026-11",
        "command": ["/bin/sh", "/pai/wrapper"],
        "env": env,
        "resources": {"requests": room, "limits": room},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    spec = {
        "nodeName": node,
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    }
    labels = {"app.kubernetes.io/managed-by": "openpai", "openpai/job": "ann.train", "openpai/task": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def stored(number: int) -> dict[str, Any]:
    """Return a pod as an API server lists it: about 8 KB, half of which are managed fields."""
    pod = a_pod(f"train-worker-{number}", f"node-{number % 200}")
    fields = {f"f:field{position}": {".": {}, "f:name": {}, "f:value": {}} for position in range(140)}
    managed = [
        {"manager": "kubelet", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:status": fields}}
    ]
    at = "2026-11-22T10:00:00Z"
    pod["metadata"] |= {
        "namespace": "openpai",
        "uid": f"00000000-0000-0000-0000-{number:012}",
        "resourceVersion": str(number),
        "creationTimestamp": at,
        "managedFields": managed,
    }
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    pod["status"] = {
        "phase": "Running",
        "hostIP": "192.0.2.1",
        "podIP": "10.244.0.1",
        "podIPs": [{"ip": "10.244.0.1"}],
        "startTime": at,
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": at} for kind in kinds],
        "containerStatuses": [
            {
                "name": "task",
                "ready": True,
                "restartCount": 0,
                "image": "registry.example.com/team/training:2026-11",
                "imageID": "sha256:" + "0" * 64,
                "containerID": "containerd://" + "0" * 64,
                "state": {"running": {"startedAt": at}},
            }
        ],
    }
    return pod


def decoders() -> dict[str, Callable[[bytes], Any]]:
    """Return what reads a list of pods: ours, json, and the libraries that are installed."""
    found: dict[str, Callable[[bytes], Any]] = {"openpai.kube": PODS.list_decoder.decode, "json": json.loads}
    if importlib.util.find_spec("lightkube"):
        from lightkube.models.core_v1 import PodList

        found["lightkube"] = msgspec.json.Decoder(PodList).decode
    if importlib.util.find_spec("kubernetes"):
        from kubernetes.client import V1PodList

        found["kubernetes"] = V1PodList.model_validate_json
    return found


def decode(options: argparse.Namespace) -> dict[str, Any]:
    """Measure what reading a list of pods costs."""
    items = [stored(number) for number in range(options.pods)]
    content = msgspec.json.encode({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
    figures: dict[str, Any] = {"pods": options.pods, "kb_per_pod": round(len(content) / options.pods / 1024, 1)}
    for name, read in decoders().items():
        read(content)
        times = []
        for _ in range(3):
            began = time.process_time()
            kept = read(content)
            times.append(time.process_time() - began)
        del kept
        tracemalloc.start()
        kept = read(content)
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        del kept
        figures[name] = {
            "us_per_pod": round(min(times) / options.pods * 1e6, 1),
            "kb_kept_per_pod": round(size / options.pods / 1024, 2),
        }
    return figures


async def create(client: KubeClient, options: argparse.Namespace) -> dict[str, Any]:
    """Create pods as quickly as the API server takes them: one body, in which the name is replaced."""
    before, _, after = msgspec.json.encode(a_pod("NAME", "node-0")).replace(b'"NAME"', b'"\0"', 1).partition(b"\0")
    names = iter(range(options.pods))
    times: list[float] = []

    async def creator() -> None:
        for number in names:
            began = time.perf_counter()
            await client.create(PODS, before + f"pod-{number}".encode() + after, "bench")
            times.append(time.perf_counter() - began)

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(creator() for _ in range(options.connections)))
    took = time.perf_counter() - began
    return {
        "pods": options.pods,
        "connections": options.connections,
        "pods_per_s": round(options.pods / took, 1),
        "own_cpu_ms_per_pod": round((time.process_time() - cpu) / options.pods * 1000, 2),
        "p99_ms": round(statistics.quantiles(times, n=100)[98] * 1000, 1),
    }


async def cache(client: KubeClient, options: argparse.Namespace) -> dict[str, Any]:
    """Fill a cache with all pods, and time changes until its reader has them."""
    await create(client, options)
    before = memory_mb()
    began, cpu = time.perf_counter(), time.process_time()
    async with Reflector(client, PODS, "bench") as pods:
        await pods.synced.wait()
        figures = {
            "pods": len(pods),
            "synced_s": round(time.perf_counter() - began, 2),
            "own_cpu_s": round(time.process_time() - cpu, 2),
            "memory_peak_mb": round(memory_mb() - before, 1),
        }
        changes = pods.subscribe()
        changes.take()
        delays = []
        for number in range(min(200, options.pods)):
            began = time.perf_counter()
            body = {"metadata": {"annotations": {"at": str(number)}}}
            version = (await client.patch(PODS, f"pod-{number}", body, "bench")).metadata.resource_version
            async for change in changes:
                if change.last.metadata.resource_version == version:
                    break
            delays.append(time.perf_counter() - began)
        return figures | {"write_to_change_p99_ms": round(statistics.quantiles(delays, n=100)[98] * 1000, 1)}


def memory_mb() -> float:
    """Return the most memory that this process ever used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def on_a_server(options: argparse.Namespace) -> dict[str, Any]:
    """Carry out a measurement on an API server of its own."""
    from tests.kube.server import control_plane, why_not

    if reason := why_not():
        sys.exit(reason)
    with control_plane() as plane:
        async with KubeClient(cluster_access(plane.kubeconfig), connections=options.connections) as client:
            await client.create(NAMESPACES, {"metadata": {"name": "bench"}})
            return await {"create": create, "cache": cache, "soak": soak}[options.what](client, options)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", choices=("decode", "create", "cache", "soak"), default="create")
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--connections", type=int, default=48)
    parser.add_argument("--soak-minutes", type=float, default=30)
    parser.add_argument("--check-s", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    answer(**(decode(chosen) if chosen.what == "decode" else asyncio.run(on_a_server(chosen))))
