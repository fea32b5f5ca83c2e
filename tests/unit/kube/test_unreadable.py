"""Objects with a value that their type does not take: they stay in the cache with everything else."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import structlog
from aiohttp import web

from openpai.backends.kubernetes.foreign import ForeignPods
from openpai.backends.kubernetes.leases import NodeLeases
from openpai.kube.client import KubeClient
from openpai.kube.config import ClusterAccess
from openpai.kube.objects import PODS
from openpai.kube.objects.kinds import LEASES
from openpai.kube.objects.pods import Pod
from openpai.kube.objects.salvage import salvage
from openpai.kube.reflector import Reflector


def a_pod(version: int, started: object = "2026-01-01T00:00:00Z", **status: Any) -> dict[str, Any]:
    requests = {"cpu": "2", "nvidia.com/gpu": "4"}
    state = {"running": {"startedAt": started}}
    return {
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": str(version), "labels": {"x": "y"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "c", "state": state}], **status},
    }


async def watched(events: list[tuple[str, dict[str, Any]]]) -> tuple[Reflector[Pod], list[str], list[Any]]:
    """Return a cache after a stream of events, what it logged, and what it reported."""
    end = {"metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}}

    async def stream(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for kind, found in [("BOOKMARK", end), *events]:
            await answer.write(json.dumps({"type": kind, "object": found}).encode() + b"\n")
        await asyncio.sleep(3600)
        return answer

    app = web.Application()
    app.router.add_get("/api/v1/pods", stream)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    access = ClusterAccess(server=f"http://127.0.0.1:{runner.addresses[0][1]}")
    last = events[-1][1]["metadata"]["resourceVersion"]
    reported = []
    with structlog.testing.capture_logs() as logs:
        async with KubeClient(access) as client, Reflector(client, PODS) as pods, asyncio.timeout(30):
            changes = pods.subscribe()
            while pods._version != last:
                reported += await changes.wait()
    await runner.cleanup()
    return pods, [f"{entry['name']} {entry['part']}" for entry in logs if "part" in entry], reported


async def test_a_pod_with_an_odd_value_goes_on_occupying_its_node() -> None:
    odd = [a_pod(version, started={"seconds": 5}) for version in (3, 4)]
    pods, logs, reported = await watched([("ADDED", a_pod(2)), *(("MODIFIED", found) for found in odd)])
    assert [change.is_deletion for change in reported if change.is_deletion] == []
    (pod,) = pods
    assert (pod.status.phase, pod.spec.node_name, pod.metadata.labels) == ("Running", "n1", {"x": "y"})
    # One warning, however often the pod changes, and it names the place.
    (log,) = logs
    assert log.startswith("n/a ")
    assert log.endswith("startedAt`")
    foreign = ForeignPods(lambda pod: False)
    foreign.put(pod)
    assert (foreign.of("n1").cpu_milli, foreign.of("n1").resources) == (2000, {"nvidia.com/gpu": 4})


async def test_a_pod_that_is_odd_from_the_start_occupies_its_node_until_it_is_deleted() -> None:
    odd = a_pod(2, started=7, phase=["?"])
    pods, _, _ = await watched([("ADDED", odd)])
    (pod,) = pods
    assert (pod.has_ended, pod.spec.node_name) == (False, "n1")
    pods, logs, reported = await watched([("ADDED", odd), ("DELETED", a_pod(3, started=7))])
    assert (len(pods), len(logs), [change.is_deletion for change in reported][-1:]) == (0, 1, [True])


@pytest.mark.parametrize("bad", ["phase", "conditions", "startTime", "containerStatuses"])
def test_only_the_odd_value_is_left_out(bad: str) -> None:
    found = a_pod(1)
    found["status"] |= {"conditions": [{"type": "Ready"}], "startTime": "2026-01-01T00:00:00Z", bad: {"x": [1]}}
    pod = salvage(PODS.type, json.dumps(found).encode())
    assert pod.spec.containers[0].resources.requests["nvidia.com/gpu"] == "4"
    assert (pod.status.phase == "Running") is (bad != "phase")
    assert bool(pod.status.conditions) is (bad != "conditions")


def test_a_lease_with_an_unreadable_time_proves_no_node_dead() -> None:
    leases = NodeLeases()
    leases.contact(0.0)
    odd = {"metadata": {"name": "n1"}, "spec": {"leaseDurationSeconds": 40, "renewTime": {"s": 1}}}
    leases.renewed(salvage(LEASES.type, json.dumps(odd).encode()), 0.0)
    for second in range(200):
        leases.contact(float(second))
    assert leases.dead() == frozenset()
