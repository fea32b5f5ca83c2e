"""A node is reported with what is really left of it, and as unhealthy exactly while it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpai.backends.kubernetes.devices import GpuMode
from openpai.backends.kubernetes.foreign import ForeignPods, requested
from openpai.backends.kubernetes.leases import NodeLeases
from openpai.backends.kubernetes.node_health import NodeRules
from openpai.backends.kubernetes.nodes import NodeTable
from openpai.kube.objects.meta import Resource
from openpai.ports.backend import NodeSeen
from tests.unit.backends.kubernetes_objects import (
    READY,
    asking,
    claim,
    device,
    lease,
    node,
    pod,
    resource_slice,
    taint_rule,
)


def is_ours(thing: Resource) -> bool:
    return thing.metadata.label("owner") == "us"


def table(**options: Any) -> NodeTable:
    return NodeTable(is_ours, **options)


def only(nodes: NodeTable) -> NodeSeen:
    (seen,) = nodes.seen()
    return seen


def test_a_node_shows_what_it_offers_and_where_it_is() -> None:
    nodes = table()
    nodes.put_node(node(allocatable={"cpu": "7900m", "memory": "15Gi"}))

    assert only(nodes) == NodeSeen("n1", "10.0.0.1", 7, 15 * 1024)


def test_pods_of_others_are_subtracted_until_they_have_ended() -> None:
    nodes = table()
    nodes.put_node(node())
    nodes.foreign.put(pod("a", asking(cpu="1500m", memory="4Gi")))
    nodes.foreign.put(pod("b", asking(cpu="1", memory="1Gi"), owner="us"))
    nodes.foreign.put(pod("c", asking(cpu="2"), phase="Succeeded"))
    nodes.foreign.put(pod("d", asking(cpu="2"), node="elsewhere"))
    assert (only(nodes).cpus, only(nodes).memory_mb) == (6, 12 * 1024)

    nodes.foreign.put(pod("a", asking(cpu="1500m", memory="4Gi"), phase="Failed"))
    assert (only(nodes).cpus, only(nodes).memory_mb) == (8, 16 * 1024)


def test_a_node_that_others_fill_beyond_its_size_offers_nothing() -> None:
    nodes = table()
    nodes.put_node(node())
    nodes.foreign.put(pod("a", asking(cpu="100", memory="1Ti")))

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


class TestLeases:
    """A node is dead when its renewals stop to arrive, and only then."""

    def run(self, leases: NodeLeases, seconds: range, *, renewing: tuple[str, ...]) -> None:
        for second in seconds:
            if second % 10 == 0:
                for name in renewing:
                    leases.renewed(lease(name, (second // 10) % 60), second)
            leases.contact(second)

    def test_a_kubelet_that_stops_is_found_within_30_seconds(self) -> None:
        leases = NodeLeases()
        self.run(leases, range(101), renewing=("n1", "n2"))
        self.run(leases, range(101, 125), renewing=("n2",))
        assert leases.dead() == frozenset()
        self.run(leases, range(125, 130), renewing=("n2",))
        assert leases.dead() == {"n1"}

    def test_stamps_of_the_wrong_year_do_not_matter(self) -> None:
        leases = NodeLeases()
        leases.renewed(lease(second=5), 1000.0)
        leases.contact(1000.0)
        assert not leases.is_dead("n1")

    def test_a_change_that_renews_nothing_is_no_renewal(self) -> None:
        leases = NodeLeases()
        for second in range(27):
            leases.renewed(lease(holder=f"h{second}"), second)
            leases.contact(second)
        assert leases.is_dead("n1")

    def test_no_node_dies_while_the_api_server_is_away_nor_right_after(self) -> None:
        leases = NodeLeases()
        self.run(leases, range(101), renewing=("n1", "n2"))
        leases.contact(700)
        assert leases.dead() == frozenset()
        self.run(leases, range(700, 726), renewing=("n1",))
        assert leases.dead() == {"n2"}

    def test_a_dead_node_that_renews_lives(self) -> None:
        leases = NodeLeases()
        self.run(leases, range(1, 60), renewing=())
        leases.renewed(lease(), 60)
        self.run(leases, range(60, 90), renewing=())
        assert leases.is_dead("n1")
        leases.renewed(lease(second=1), 90)
        assert not leases.is_dead("n1")

    @pytest.mark.parametrize(("duration", "allowed"), [(40, 25), (None, 25), (80, 50), (4, 10)])
    def test_a_lease_of_another_duration_allows_as_many_missed_renewals(
        self, duration: int | None, allowed: int
    ) -> None:
        leases = NodeLeases()
        leases.renewed(lease(duration=duration), 0)
        for second in range(allowed + 1):
            assert not leases.is_dead("n1")
            leases.contact(second)
        assert leases.is_dead("n1")

    def test_a_node_without_a_lease_is_not_judged_by_one(self) -> None:
        nodes = table()
        nodes.put_node(node())
        nodes.leases.renewed(lease(), 0)
        nodes.leases.contact(0)
        nodes.leases.forget("n1")
        for second in range(100):
            nodes.leases.contact(second)
        assert nodes.dead() == frozenset()

    def test_a_dead_node_is_reported_as_such(self) -> None:
        nodes = table()
        nodes.put_node(node())
        nodes.leases.renewed(lease(), 0)
        for second in range(31):
            nodes.leases.contact(second)
        assert nodes.dead() == {"n1"}
        assert only(nodes).message == "its kubelet has not renewed its lease for 30 s"

    def test_a_silent_watch_asks_for_a_probe(self) -> None:
        leases = NodeLeases()
        assert leases.is_probe_due(0.0)
        leases.contact(0.0)
        assert not leases.is_probe_due(2.0)
        assert leases.is_probe_due(3.0)


GPUS = [device("gpu-1", "GPU-b", "0000:02:00.0"), device("gpu-0", "GPU-a", "0000:01:00.0")]


class TestSlices:
    """Devices of drivers, by UUID."""

    def nodes(self, **options: Any) -> NodeTable:
        nodes = table(**options)
        nodes.put_node(node())
        nodes.put_slice(resource_slice(GPUS))
        return nodes

    def test_the_devices_of_a_driver_are_found(self) -> None:
        nodes = self.nodes()
        nodes.put_slice(resource_slice([device("nic")], name="s2", driver="nic.example.com"))

        assert (only(nodes).gpus, only(nodes).gpu_model, only(nodes).bad_devices) == (2, "NVIDIA H100", frozenset())
        assert nodes.devices("n1").mode is GpuMode.DRA
        assert [found and found.uuid for found in nodes.devices("n1").devices] == ["GPU-a", "GPU-b"]

    def test_indices_survive_a_restart_with_other_names(self) -> None:
        nodes = self.nodes()
        nodes.seen()
        saved = nodes.unsaved()
        assert nodes.unsaved() == {}

        later = table(remembered=saved)
        later.put_node(node())
        later.put_slice(
            resource_slice([device("gpu-0", "GPU-b", "0000:01:00.0"), device("gpu-1", "GPU-c", "0000:02:00.0")])
        )
        assert [found and found.uuid for found in later.devices("n1").devices] == ["GPU-c", "GPU-b"]

    def test_devices_are_missing_while_the_driver_is_away(self) -> None:
        nodes = self.nodes()
        nodes.seen()
        nodes.drop_slice("s1")

        assert only(nodes).bad_devices == {0, 1}
        assert only(nodes).is_healthy
        assert "GPU 0: is missing" in only(nodes).message

    def test_half_a_new_generation_changes_nothing(self) -> None:
        nodes = self.nodes()
        nodes.put_slice(resource_slice(GPUS[:1], name="s2", generation=2, of=2))
        assert only(nodes).bad_devices == frozenset()

        nodes.put_slice(resource_slice([], name="s3", generation=2, of=2))
        assert only(nodes).bad_devices == {0}

    def test_a_device_that_another_pod_claims_is_not_ours_to_give(self) -> None:
        nodes = self.nodes()
        nodes.put_claim(claim("theirs", "gpu-1"))
        nodes.put_claim(claim("mine", "gpu-0", owner="us"))
        assert only(nodes).bad_devices == {1}
        assert "held by claim others/theirs" in only(nodes).message

        nodes.put_claim(claim("theirs"))
        assert only(nodes).bad_devices == frozenset()

    def test_tainted_devices_are_bad(self) -> None:
        nodes = self.nodes()
        taints = [{"key": "xid", "value": "79", "effect": "NoExecute"}, {"key": "hot", "effect": "None"}]
        nodes.put_slice(resource_slice([GPUS[0], {**GPUS[1], "taints": taints}]))
        assert nodes.devices("n1").problems == {0: "its driver reports xid=79"}

    @pytest.mark.parametrize(
        ("selector", "effect", "bad"),
        [
            ({"driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-1"}, "NoSchedule", {1}),
            ({"driver": "gpu.nvidia.com"}, "NoExecute", {0, 1}),
            ({"driver": "other"}, "NoSchedule", set()),
            ({}, "NoSchedule", {0, 1}),
            (None, "NoSchedule", set()),
            ({}, "None", set()),
        ],
    )
    def test_a_taint_rule_makes_its_devices_bad(
        self, selector: dict[str, str] | None, effect: str, bad: set[int]
    ) -> None:
        nodes = self.nodes()
        nodes.put_taint_rule(taint_rule("r", selector, effect))
        assert only(nodes).bad_devices == bad

        nodes.drop_taint_rule("r")
        assert only(nodes).bad_devices == frozenset()

    def test_ways_to_partition_a_card_are_not_devices(self) -> None:
        mig = device("mig", "MIG-1", attributes={"type": {"string": "mig"}}, consumesCounters=[{"counterSet": "c"}])
        vfio = device("vfio", "GPU-a", attributes={"type": {"string": "vfio"}})
        nodes = table()
        nodes.put_node(node())
        nodes.put_slice(resource_slice([*GPUS, mig, vfio]))

        assert only(nodes).gpus == 2


class TestCounted:
    """Devices that a kubelet only counts."""

    def nodes(self, count: str = "4", **labels: str) -> NodeTable:
        nodes = table()
        nodes.put_node(node(capacity={"nvidia.com/gpu": count, "example.com/nic": "9"}, labels=labels))
        return nodes

    def test_devices_of_others_are_marked_where_ours_are_not(self) -> None:
        nodes = self.nodes()
        assert only(nodes).gpus == 4
        nodes.hold("n1", "mine", (3,))
        nodes.foreign.put(pod("a", asking(gpu="2")))
        assert only(nodes).bad_devices == {1, 2}

        nodes.hold("n1", "mine", ())
        assert only(nodes).bad_devices == {2, 3}

    def test_the_label_of_a_node_gives_its_model(self) -> None:
        nodes = table()
        nodes.put_node(node(capacity={"amd.com/gpu": "2"}, labels={"amd.com/gpu.product-name": "MI300X"}))
        assert (only(nodes).gpus, only(nodes).gpu_model) == (2, "MI300X")

    def test_a_report_names_the_devices_of_the_task(self) -> None:
        nodes = self.nodes()
        nodes.seen()
        nodes.hold("n1", "first", (0, 1))
        nodes.hold("n1", "second", (2,))
        assert nodes.got("n1", "first", ["GPU-d", "GPU-c"])
        assert nodes.got("n1", "second", ["GPU-a"])

        assert [found and found.uuid for found in nodes.devices("n1").devices] == ["GPU-c", "GPU-d", "GPU-a", ""]
        assert not nodes.got("n1", "second", ["GPU-c"])
        assert not nodes.got("nowhere", "second", ["GPU-c"])

    def test_a_node_whose_plugin_restarts_keeps_its_devices_as_missing(self) -> None:
        nodes = self.nodes()
        nodes.seen()
        nodes.put_node(node(capacity={"nvidia.com/gpu": "0"}))
        assert (only(nodes).gpus, len(only(nodes).bad_devices)) == (4, 4)

    def test_a_node_that_changes_from_counting_to_claims_has_its_devices_once(self) -> None:
        nodes = self.nodes("2")
        nodes.seen()
        nodes.put_slice(resource_slice(GPUS))
        nodes.put_node(node())
        assert (only(nodes).gpus, only(nodes).bad_devices) == (2, frozenset())

    def test_a_label_chooses_where_a_node_offers_both(self) -> None:
        nodes = table()
        nodes.put_slice(resource_slice(GPUS))
        nodes.put_node(node(capacity={"nvidia.com/gpu": "2"}))
        assert nodes.devices("n1").mode is GpuMode.DRA
        nodes.put_node(node(capacity={"nvidia.com/gpu": "2"}, labels={"openpai/gpu-mode": "plugin"}))
        assert nodes.devices("n1").mode is GpuMode.PLUGIN

    def test_the_mode_env_needs_the_label(self) -> None:
        nodes = table()
        nodes.put_node(node(labels={"nvidia.com/gpu.count": "4"}))
        assert only(nodes).gpus == 0
        nodes.put_node(node(labels={"nvidia.com/gpu.count": "4", "openpai/gpu-mode": "env"}))
        assert (only(nodes).gpus, nodes.devices("n1").mode) == (4, GpuMode.ENV)
