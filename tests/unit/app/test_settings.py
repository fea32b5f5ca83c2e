"""Settings that cannot work are refused with a sentence before anything is opened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openpai.app.settings import Settings
from openpai.app.settings_check import check
from openpai.app.startup import promised_at_start
from openpai.protocol.errors import Refused

CLUSTER = """
physicalCluster:
  skuTypes: {gpu: {gpu: 1, cpu: 1, memory: 64Mi}}
  cellTypes: {NODE: {childCellType: gpu, childCellNumber: 1, isNodeLevel: true}}
  physicalCells: [{cellType: NODE, cellAddress: node-01}]
virtualClusters:
  vision: {virtualCells: [{cellType: NODE, cellNumber: 1}]}
"""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"port": 70000}, "--port 70000"),
        ({"nodes": 0}, "--nodes 0"),
        ({"gpus_per_node": -1}, "--gpus-per-node -1"),
        ({"cpus_per_node": 0}, "--cpus-per-node 0"),
        ({"audit_retention_days": -1.0}, "--audit-retention-days -1"),
        ({"audit_retention_days": float("nan")}, "--audit-retention-days nan"),
        ({"host": "0.0.0.0"}, "lets other machines reach it"),
        ({"host": "example.org"}, "lets other machines reach it"),
        ({"task_user": "nobody", "backend": "docker"}, "--task-user is for the process backend"),
        ({"task_uids": "200000-200009", "backend": "docker"}, "--task-uids is for the process backend"),
        ({"task_uids": "200000-200009", "task_user": "nobody"}, "runs all tasks as one user"),
        ({"host_network": True}, "--host-network is for the docker or kubernetes backend"),
        ({"allow_setuid": True}, "--allow-setuid is for the docker or kubernetes backend"),
        ({"allow_infiniband": True}, "--allow-infiniband is for the docker or kubernetes backend"),
        ({"pids_per_task": 100}, "--pids-per-task is for the docker backend"),
        ({"pids_per_task": 3, "backend": "docker"}, "--pids-per-task 3 is too few"),
        ({"task_subnets": "10.0.0.1/8", "backend": "docker"}, "10.0.0.1/8 is not a range of addresses"),
        ({"task_subnets": "10.1.0.0/16", "host_network": True, "backend": "docker"}, "no effect with --host-network"),
        ({"task_subnets": "10.1.0.0/16", "node_address": "10.1.2.3", "backend": "docker"}, "is inside"),
        ({"kube_context": "x"}, "--kube-context is for the kubernetes backend"),
        ({"placement": "polite", "backend": "docker"}, "--placement is for the kubernetes backend"),
        ({"nodes": 2, "backend": "kubernetes"}, "--nodes is for the process or docker or simulated backend"),
        ({"lost_after": 5.0, "backend": "kubernetes"}, "--lost-after 5 is too short"),
        ({"node_address": "here"}, "here is not an IP address"),
        ({"metrics_url": "http://"}, "--metrics-url is not the address of a server"),
        ({"log_max_mb": -1}, "--log-max-mb -1 leaves too little"),
        ({"required_mounts": "data"}, "--required-mounts data is no path"),
        ({"traces_ratio": 1.5}, "--traces-ratio 1.5 is not a part of all"),
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message) as refused:
        check(Settings(Path("/nowhere"), **options))
    assert refused.value.advice


def test_every_fault_is_named_and_none_that_follows_from_another() -> None:
    wrong = Settings(
        Path("/nowhere"), port=-1, node_address="here", task_subnets="there", backend="docker", lost_after=9
    )
    with pytest.raises(Refused, match="4 faults") as refused:
        check(wrong)
    _, *faults = refused.value.message.splitlines()
    assert [fault.split()[0] for fault in faults] == ["--port", "--node-address", "--task-subnets", "--lost-after"]


def test_only_root_gives_tasks_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(Path("/nowhere"), task_user="nobody")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(Refused, match="only a server that is root"):
        check(settings)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    check(settings)


def test_only_root_gives_people_users(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(Path("/nowhere"), task_uids="200000-200009")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(Refused, match="only a server that is root"):
        check(settings)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    check(settings)
    assert not settings.runs_tasks_as_root


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"host": "::1"},
        {"host": "localhost"},
        {"host": "0.0.0.0", "allow_remote": True},
        {"host": "0.0.0.0", "backend": "docker"},
        {"host": "0.0.0.0", "backend": "kubernetes", "lost_after": 0.0, "host_network": True},
        {"backend": "docker", "task_subnets": "10.1.0.0/16", "pids_per_task": 100, "node_address": "192.0.2.7"},
    ],
)
def test_what_can_work_is_let_through(options: dict[str, Any]) -> None:
    check(Settings(Path("/nowhere"), **options))


@pytest.mark.parametrize("in_a_file", [False, True])
def test_a_queue_of_a_virtual_cluster_that_is_not_defined_beside_it_is_refused(tmp_path: Path, in_a_file: bool) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER, "utf-8")
    defined: dict[str, Any] = {"cluster": file} if in_a_file else {"share": "vision: 2 nodes"}
    settings = Settings(Path("/nowhere"), backend="kubernetes", **defined)
    promised_at_start(replace(settings, kueue_queues="vision=team-a,default=team-b"))
    with pytest.raises(Refused) as refused:
        promised_at_start(replace(settings, kueue_queues="visoin=team-a,vision=team-a"))
    assert refused.value.message == (
        "--kueue-queues gives virtual cluster 'visoin' the queue team-a, and there is no such virtual cluster; "
        "did you mean 'vision'?"
    )
    assert refused.value.advice == f"name one of {'--cluster' if in_a_file else '--share'}: default, vision"
