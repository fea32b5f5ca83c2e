"""The devices of a node: found by drivers or counted by kubelets, and never twice or under a new index."""

from __future__ import annotations

from typing import Any

import pytest

from openpai.backends.kubernetes.devices import GpuMode
from openpai.backends.kubernetes.nodes import NodeTable
from tests.unit.backends.kubernetes_objects import (
    asking,
    claim,
    device,
    node,
    only,
    pod,
    resource_slice,
    table,
    taint_rule,
)


def got(nodes: NodeTable, uid: str, *uuids: str, is_proof: bool = True) -> bool:
    return nodes.got("n1", uid, {"nvidia.com/gpu": uuids}, is_proof=is_proof)


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
        nodes.put_pod(pod("a", asking(gpu="2")))
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
        assert got(nodes, "first", "GPU-d", "GPU-c")
        assert got(nodes, "second", "GPU-a")

        assert only(nodes).devices == ("GPU-c", "GPU-d", "GPU-a", "")
        assert not got(nodes, "second", "GPU-c")
        assert not got(nodes, "unknown", "GPU-c")
        assert only(nodes).devices == ("GPU-c", "GPU-d", "GPU-a", "")

    def test_what_an_ended_task_had_may_be_another_tasks(self) -> None:
        """The next task on the same index may have another device, and says so later than a third."""
        nodes = self.nodes()
        nodes.hold("n1", "first", (0,))
        assert got(nodes, "first", "GPU-a")
        nodes.hold("n1", "first", ())
        nodes.hold("n1", "second", (0,))
        nodes.hold("n1", "third", (1,))
        assert got(nodes, "third", "GPU-a")
        assert got(nodes, "second", "GPU-b")
        assert only(nodes).devices[:2] == ("GPU-b", "GPU-a")

    def test_a_lie_of_a_container_gives_way_to_its_kubelet(self) -> None:
        nodes = self.nodes()
        nodes.hold("n1", "liar", (0,))
        nodes.hold("n1", "other", (1,))
        assert got(nodes, "liar", "GPU-b", is_proof=False)
        assert not got(nodes, "other", "GPU-b", is_proof=False)
        assert got(nodes, "other", "GPU-b")
        assert only(nodes).devices[1] == "GPU-b"
        assert not got(nodes, "liar", "GPU-b", is_proof=False)
        assert not got(nodes, "liar", "GPU-c", "GPU-d", is_proof=False)
        assert only(nodes).devices == ("", "GPU-b", "", "")
        # And once it is over, what it said binds no other.
        nodes.hold("n1", "liar", ())
        nodes.hold("n1", "next", (0,))
        assert got(nodes, "next", "GPU-c", is_proof=False)

    def test_a_node_keeps_its_devices_as_missing_while_its_plugin_restarts(self) -> None:
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
