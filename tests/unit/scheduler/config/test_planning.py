"""A few words about who gets what become a full configuration that keeps the promise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from openpai.protocol.errors import Refused
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.core import Hived
from openpai.scheduler.cells.model import Bind, GangRequest
from openpai.scheduler.config.model import HivedConfig
from openpai.scheduler.config.planning import plan
from openpai.scheduler.config.promises import Promise, read_promises
from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Node

FLEET = [(Node(f"v{number}", 32, 262144, 8), "V100") for number in range(4)] + [(Node("c0", 12, 65536, 0), "")]


def test_promises_are_read_from_a_text() -> None:
    text = "team A: 3 nodes, team B: 8 GPUs, infer: 4 gpus of V100, batch: 1 node of CPU"
    assert read_promises(f"{text}, cheap: 16 CPUs, default: rest") == (
        Promise("team A", nodes=3),
        Promise("team B", gpus=8),
        Promise("infer", gpus=4, kind="V100"),
        Promise("batch", nodes=1, kind="CPU"),
        Promise("cheap", cpus=16),
        Promise("default", is_rest=True),
    )
    with pytest.raises(Refused, match="cannot be understood"):
        read_promises("team A wants everything")


@pytest.mark.parametrize("text", [" " * 50_000, "a" + " " * 50_000, f"a: {'9' * 5000} nodes", ": 1 node", " : 1 node"])
def test_a_text_that_is_no_promise_is_refused_at_once(text: str) -> None:
    with pytest.raises(Refused, match="cannot be understood") as caught:
        read_promises(text)
    assert len(caught.value.message) < 300


def test_a_trial_plan_writes_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []
    dump = yaml.dump
    monkeypatch.setattr(yaml, "dump", lambda document, **options: written.append(document) or dump(document, **options))
    config = plan(FLEET, read_promises("a: 2 nodes of V100, b: 12 GPUs"))
    assert written == []
    assert config.text == config.text
    assert len(written) == 1


def test_a_plan_is_a_configuration_that_keeps_every_promise() -> None:
    config = plan(FLEET, read_promises("a: 2 nodes of V100, b: 12 GPUs, c: 3 GPUs, d: 1 node of CPU"))
    assert replace(read_config(config.text), source=config.source) == config
    promised = {
        name: sum(config.chains[quota.chain].leaves(quota.level) * quota.number for quota in spec.quota)
        for name, spec in config.virtual_clusters.items()
    }
    assert promised == {"a": 16, "b": 12, "c": 3, "d": 12}
    assert config.skus["V100"].cpus == 4
    assert config.skus["CPU"].gpus == 0
    core = Hived(Cluster(config))
    for gang, owner, size in (("1", "a", 8), ("2", "a", 8), ("3", "b", 8), ("4", "b", 4), ("5", "c", 2), ("6", "c", 1)):
        assert isinstance(core.schedule(GangRequest(gang, owner, ((1, size),))), Bind)
        core.commit(gang)


def test_machines_of_odd_sizes_and_of_two_builds_are_kept_apart() -> None:
    fleet = [(Node("a", 8, 8192, 3), "K80"), (Node("b", 16, 8192, 3), "K80"), (Node("c", 4, 4096, 1), "T4")]
    config = plan(fleet, read_promises("x: 1 node of K80, y: 2 GPUs of K80-16cpu, z: 1 GPU of T4"))
    assert set(config.chains) == {"K80-POOL", "K80-16cpu-POOL", "T4-POOL"}


def test_what_others_take_of_some_nodes_does_not_part_them() -> None:
    cpus = {"a": 96, "b": 95, "c": 88, "d": 60}
    config = plan(
        [(Node(name, count, 8192, 8), "H100") for name, count in cpus.items()], read_promises("default: rest")
    )
    chains = {name: chain.nodes for name, chain in config.chains.items()}
    assert chains == {"H100-POOL": ("d",), "H100-96cpu-POOL": ("a", "b", "c")}
    assert {name: sku.cpus for name, sku in config.skus.items()} == {"H100": 60 // 8, "H100-96cpu": 88 // 8}


@pytest.mark.parametrize(
    ("promises", "message"),
    [
        ("a: 5 nodes", "at most 4 whole nodes"),
        ("a: 4 nodes, b: 1 GPU", "b wants 1 GPU, and at most 0 whole nodes that could serve are left"),
        ("a: 3 nodes, b: 2 nodes", "b wants 2 nodes, and at most 1 whole node that could serve is left"),
        ("a: 1 node of V10", "a wants 1 node of V10, and there are none"),
        ("a: 0 nodes", "'a: 0 nodes' promises nothing"),
    ],
)
def test_a_promise_that_cannot_be_kept_is_refused(promises: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        plan(FLEET, read_promises(promises))


def test_a_promise_of_gpus_without_gpus_names_the_kinds_of_nodes() -> None:
    with pytest.raises(Refused, match="a wants 4 GPUs, and there are none") as caught:
        plan([(Node("vm", 8, 8192, 0), "")], read_promises("a: 4 GPUs"))
    assert "the machines there are: CPU" in caught.value.advice


def promised(config: HivedConfig) -> dict[str, dict[str, int]]:
    """Return how many devices of each type the virtual clusters of a configuration were promised."""
    found: dict[str, dict[str, int]] = {}
    for name, spec in config.virtual_clusters.items():
        kinds = found.setdefault(name, {})
        for quota in spec.quota:
            chain = config.chains[quota.chain]
            kinds[chain.leaf_type] = kinds.get(chain.leaf_type, 0) + chain.leaves(quota.level) * quota.number
    return found


def test_the_rest_is_all_that_no_other_virtual_cluster_was_promised() -> None:
    config = plan(FLEET, read_promises("default: rest, a: 1 node of V100, b: 3 GPUs, c: 3 CPUs"))
    assert promised(config) == {"default": {"V100": 21, "CPU": 9}, "a": {"V100": 8}, "b": {"V100": 3}, "c": {"CPU": 3}}


def test_the_rest_of_nothing_is_a_virtual_cluster_without_cells() -> None:
    config = plan(FLEET, read_promises("all: 4 nodes of V100, all: 1 node of CPU, default: rest"))
    assert promised(config) == {"all": {"V100": 32, "CPU": 12}, "default": {}}
    assert promised(plan([], read_promises("default: rest"))) == {"default": {}}


def test_a_promise_of_any_kind_is_served_from_several_if_no_kind_has_enough() -> None:
    fleet = [*FLEET[:2], (Node("t0", 8, 65536, 4), "T4"), (Node("t1", 8, 65536, 4), "T4")]
    assert promised(plan(fleet, read_promises("a: 3 nodes"))) == {"a": {"T4": 8, "V100": 8}}
    assert promised(plan(fleet, read_promises("a: 22 GPUs, b: rest"))) == {"a": {"T4": 8, "V100": 14}, "b": {"V100": 2}}
    with pytest.raises(Refused, match="wants 25 GPUs"):
        plan(fleet, read_promises("a: 25 GPUs"))


def test_a_virtual_cluster_may_have_several_kinds() -> None:
    fleet = [*FLEET[:4], (Node("t0", 8, 65536, 4), "T4")]
    assert promised(plan(fleet, read_promises("a: 3 nodes of V100, a: 1 node of T4, a: 4 GPUs of V100"))) == {
        "a": {"V100": 28, "T4": 4}
    }


def test_names_of_kinds_do_not_change_when_another_machine_comes() -> None:
    fleet = [(Node(f"n{at}", cpus, 65536 + at, 2), "K80") for at, cpus in enumerate((8, 16, 16))]
    before = plan(fleet, [])
    after = plan([(Node("first", 16, 65530, 2), "K80"), *fleet, (Node("last", 8, 65000, 2), "K80")], [])
    assert set(before.chains) == set(after.chains) == {"K80-POOL", "K80-16cpu-POOL"}
    assert set(before.chains["K80-16cpu-POOL"].nodes) < set(after.chains["K80-16cpu-POOL"].nodes)
    assert after.skus["K80"].memory_mb == 65000 // 2


@pytest.mark.parametrize(("cpus", "devices"), [(1, 1), (6, 6), (64, 64), (96, 48), (127, 63), (256, 64)])
def test_a_machine_without_gpus_is_shared_out_with_hardly_a_cpu_left_over(cpus: int, devices: int) -> None:
    config = plan([(Node("n", cpus, 65536, 0), "")], read_promises("default: rest"))
    assert sum(chain.count(1) for chain in config.chains.values()) == devices
    assert config.skus["CPU"].cpus * devices >= 0.95 * cpus
