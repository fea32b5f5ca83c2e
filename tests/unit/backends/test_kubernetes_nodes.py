"""A node is reported with what is really left of it, and as unhealthy exactly while it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpai.backends.kubernetes.cluster import NODES_AT_ONCE, Cluster
from openpai.backends.kubernetes.foreign import ForeignPods, requested
from openpai.backends.kubernetes.node_health import NodeRules
from openpai.backends.kubernetes.nodes import NodeTable
from openpai.kube.client import KubeClient
from openpai.kube.objects.nodes import Node
from openpai.ports.backend import NodeCheck, NodeSeen
from tests.costs import lines_run
from tests.unit.backends.kubernetes_objects import (
    READY,
    asking,
    claim,
    device,
    is_ours,
    node,
    only,
    pod,
    resource_slice,
    table,
    taint_rule,
)

NAMES = st.sampled_from(["n1", "n2"])
UIDS = st.sampled_from(["a", "b"])


def test_a_node_shows_what_it_offers_and_where_it_is() -> None:
    nodes = table()
    nodes.put_node(node(allocatable={"cpu": "7900m", "memory": "15Gi"}))

    assert only(nodes) == NodeSeen("n1", "10.0.0.1", 7, 15 * 1024, checks=(NodeCheck("kubelet", "passed"),))


async def test_others_go_on_between_parts_of_many_nodes_and_a_node_that_goes_meanwhile_is_left_out() -> None:
    nodes = table()
    for number in range(3 * NODES_AT_ONCE):
        nodes.put_node(node(f"n{number:04}"))
    names = nodes.names()
    cluster = Cluster(cast("KubeClient", None), nodes, changed=lambda change: None, gives_up_after_s=0.0)

    async def other() -> None:
        nodes.drop_node(names[-1])

    going = asyncio.create_task(other())
    seen = await cluster.seen()
    await going
    assert tuple(each.name for each in seen) == names[:-1]


def test_pods_of_others_are_subtracted_until_they_have_ended() -> None:
    nodes = table()
    nodes.put_node(node())
    nodes.put_pod(pod("a", asking(cpu="1500m", memory="4Gi")))
    nodes.put_pod(pod("b", asking(cpu="1", memory="1Gi"), owner="us"))
    nodes.put_pod(pod("c", asking(cpu="2"), phase="Succeeded"))
    nodes.put_pod(pod("d", asking(cpu="2"), node="elsewhere"))
    assert (only(nodes).cpus, only(nodes).memory_mb) == (6, 12 * 1024)

    nodes.put_pod(pod("a", asking(cpu="1500m", memory="4Gi"), phase="Failed"))
    assert (only(nodes).cpus, only(nodes).memory_mb) == (8, 16 * 1024)


def test_a_node_that_others_fill_beyond_its_size_offers_nothing() -> None:
    nodes = table()
    nodes.put_node(node())
    nodes.put_pod(pod("a", asking(cpu="100", memory="1Ti")))

    assert (only(nodes).cpus, only(nodes).memory_mb) == (0, 0)


def container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(
    ("spec", "milli"),
    [
        ({"containers": [container("1"), container("500m")]}, 1500),
        ({"containers": [container("1")], "initContainers": [container("3"), container("2")]}, 3000),
        ({"containers": [container("1")], "initContainers": [container("1", restartPolicy="Always")]}, 2000),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("1", restartPolicy="Always"), container("2")],
            },
            3000,
        ),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("2"), container("1", restartPolicy="Always")],
            },
            2000,
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}}, 4000),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}, 2000),
        ({"containers": [{"name": "c"}]}, 0),
    ],
)
def test_a_pod_takes_what_the_scheduler_counts(spec: dict[str, Any], milli: int) -> None:
    assert requested(pod("p", spec).spec).cpu_milli == milli


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 3), st.sampled_from(["n1", "n2", ""]), st.booleans()))
)
def test_after_any_history_the_sum_is_that_of_the_pods_that_are_there(
    history: list[tuple[str, int, str, bool]],
) -> None:
    foreign, there = ForeignPods(is_ours), {}
    for uid, cpus, place, is_gone in history:
        if is_gone:
            there.pop(uid, None)
            foreign.drop(uid)
        else:
            there[uid] = (place, cpus)
            foreign.put(pod(uid, asking(cpu=str(cpus), gpu="1"), node=place))
    for name in ("n1", "n2"):
        here = [cpus for place, cpus in there.values() if place == name]
        assert foreign.of(name).cpu_milli == sum(here) * 1000
        assert foreign.of(name).resources.get("nvidia.com/gpu", 0) == len(here)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"conditions": [{"type": "Ready", "status": "False", "message": "runtime down"}]}, "not ready: runtime down"),
        ({"conditions": [{"type": "Ready", "status": "Unknown"}]}, "not ready: its kubelet does not report"),
        ({"conditions": []}, "its kubelet has not reported yet"),
        ({"cordoned": True}, "cordoned"),
        ({"conditions": [READY, {"type": "DiskPressure", "status": "True", "message": "disk full"}]}, "disk full"),
        ({"conditions": [READY, {"type": "KernelDeadlock", "status": "True", "reason": "Hung"}]}, "Hung"),
        ({"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}, "out of service"),
    ],
)
def test_a_node_that_may_not_take_tasks_says_why(options: dict[str, Any], message: str) -> None:
    nodes = table()
    nodes.put_node(node(**options))

    assert not only(nodes).is_healthy
    assert message in only(nodes).message


@pytest.mark.parametrize(
    "options",
    [
        {"labels": {"node-role.kubernetes.io/control-plane": ""}},
        {"labels": {"node-role.kubernetes.io/master": ""}},
        {"labels": {"kubernetes.io/os": "windows"}},
        {"labels": {"type": "virtual-kubelet"}},
        {"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]},
    ],
)
def test_nodes_that_are_not_for_tasks_are_left_out(options: dict[str, Any]) -> None:
    nodes = table()
    nodes.put_node(node(**options))

    assert nodes.seen() == ()


def test_a_selector_chooses_nodes_even_of_the_control_plane() -> None:
    nodes = table(rules=NodeRules(selector={"pool": "ml"}))
    nodes.put_node(node("a", labels={"pool": "ml", "node-role.kubernetes.io/control-plane": ""}))
    nodes.put_node(node("b", labels={"pool": "web"}))

    assert [seen.name for seen in nodes.seen()] == ["a"]


def test_a_worker_that_gets_a_foreign_taint_stays_and_says_so() -> None:
    nodes = table()
    nodes.put_node(
        node(taints=[{"key": "openpai/dedicated", "effect": "NoSchedule"}, {"key": "x", "effect": "PreferNoSchedule"}])
    )
    assert only(nodes).is_healthy

    nodes.put_node(node(taints=[{"key": "team", "value": "a", "effect": "NoExecute"}]))
    assert "its taint team=a:NoExecute is not tolerated" in only(nodes).message


_CHANGES: st.SearchStrategy[Callable[[NodeTable], object]] = st.one_of(
    st.builds(
        lambda name, count, cordoned: (
            lambda nodes: nodes.put_node(node(name, capacity={"nvidia.com/gpu": count}, cordoned=cordoned))
        ),
        NAMES,
        st.sampled_from(["0", "2", "3"]),
        st.booleans(),
    ),
    st.builds(lambda name: lambda nodes: nodes.drop_node(name), NAMES),
    st.builds(
        lambda uid, name, gpu, phase: (
            lambda nodes: nodes.put_pod(pod(uid, asking(cpu="1", gpu=gpu), node=name, phase=phase))
        ),
        UIDS,
        NAMES,
        st.sampled_from(["0", "1"]),
        st.sampled_from(["Running", "Failed"]),
    ),
    st.builds(lambda uid: lambda nodes: nodes.drop_pod(uid), UIDS),
    st.builds(
        lambda name, count: (
            lambda nodes: nodes.put_slice(
                resource_slice(
                    [device(f"gpu-{number}", f"{name}-{number}") for number in range(count)], name=name, node=name
                )
            )
        ),
        NAMES,
        st.integers(0, 3),
    ),
    st.builds(lambda name: lambda nodes: nodes.drop_slice(name), NAMES),
    st.builds(
        lambda uid, name, number: lambda nodes: nodes.put_claim(claim(uid, f"gpu-{number}", node=name)),
        UIDS,
        NAMES,
        st.integers(0, 2),
    ),
    st.builds(lambda uid: lambda nodes: nodes.drop_claim(uid), UIDS),
    st.builds(lambda name, pool: lambda nodes: nodes.put_taint_rule(taint_rule(name, {"pool": pool})), UIDS, NAMES),
    st.builds(lambda name: lambda nodes: nodes.drop_taint_rule(name), UIDS),
    st.builds(
        lambda name, uid, held: lambda nodes: nodes.hold(name, uid, held), NAMES, UIDS, st.sets(st.integers(0, 2))
    ),
    st.builds(
        lambda name, uid: lambda nodes: nodes.got(name, uid, {"nvidia.com/gpu": ["X"]}, is_proof=True), NAMES, UIDS
    ),
)


@given(st.lists(_CHANGES, max_size=30))
def test_what_was_worked_out_before_a_change_is_never_shown_after_it(
    changes: list[Callable[[NodeTable], object]],
) -> None:
    nodes = table()
    there: dict[str, Node] = {}
    put, drop = nodes.put_node, nodes.drop_node
    nodes.put_node = lambda found: (there.update({found.name: found}), put(found))[1]  # type: ignore[method-assign]
    nodes.drop_node = lambda name: (there.pop(name, None), drop(name))[1]  # type: ignore[method-assign]
    nodes.put_node(node("n1"))
    nodes.put_node(node("n2", capacity={"nvidia.com/gpu": "2"}))
    nodes.put_slice(resource_slice([device("gpu-0", "GPU-a"), device("gpu-1", "GPU-b")], name="n1", node="n1"))
    for change in changes:
        change(nodes)
        seen, devices = nodes.seen(), {name: nodes.devices(name) for name in there}
        for found in there.values():
            put(found)
        assert (nodes.seen(), {name: nodes.devices(name) for name in there}) == (seen, devices)


def test_a_change_of_one_node_costs_the_same_in_a_large_cluster() -> None:
    def cost(count: int) -> int:
        nodes = table()
        for number in range(count):
            nodes.put_node(node(f"n{number}", capacity={"nvidia.com/gpu": "8"}))
        idle = nodes.seen()
        quiet = lines_run(nodes.seen)
        nodes.put_pod(pod("a", asking(cpu="1"), node="n1"))
        changed = lines_run(nodes.seen)
        assert nodes.seen() != idle
        return changed - quiet

    assert cost(200) == cost(20)


def test_the_conditions_of_a_node_and_its_devices_are_its_checks() -> None:
    at = "2026-11-23T10:00:00Z"
    times = {"lastTransitionTime": at, "lastHeartbeatTime": "2026-11-23T10:05:00Z"}
    conditions = [
        READY,
        {"type": "DiskPressure", "status": "False", **times},
        {"type": "ReadonlyFilesystem", "status": "True", "message": "/ is read-only", **times},
        {"type": "PIDPressure", "status": "Unknown", "reason": "NodeStatusUnknown"},
        {"type": "NTPProblem", "status": "True", "message": "no time service", **times},
        {"type": "Colourful", "status": "True"},
    ]
    nodes = table()
    nodes.put_node(node(conditions=conditions))
    nodes.put_slice(resource_slice([device("gpu-0", "u0"), device("gpu-1", "u1")]))
    nodes.put_taint_rule(taint_rule("bad", {"device": "gpu-1"}))
    since_ms = 1_795_428_000_000
    checks = only(nodes).checks
    assert checks[:-1] == (
        NodeCheck("kubelet", "passed"),
        NodeCheck("DiskPressure", "passed", "", since_ms),
        NodeCheck("ReadonlyFilesystem", "failed", "/ is read-only", since_ms),
        NodeCheck("PIDPressure", "unknown", "NodeStatusUnknown"),
        NodeCheck("NTPProblem", "warning", "no time service", since_ms),
    )
    assert checks[1].checked_ms == since_ms + 300_000
    assert (checks[-1].name, checks[-1].result) == ("GPUs", "failed")
    assert checks[-1].message.startswith("GPU 1: DeviceTaintRule ")
