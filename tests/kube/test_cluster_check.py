"""`pai cluster check` on a real API server: a sound cluster, and one with each fault."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from openpai.app import cluster_check, main
from openpai.app.check import Finding
from openpai.app.clock import SystemClock
from openpai.backends.kubernetes.backend import KubernetesBackend
from openpai.backends.kubernetes.options import KubernetesOptions
from openpai.kube.client import KubeClient
from openpai.kube.config import cluster_access
from openpai.kube.objects import NAMESPACES
from openpai.kube.objects.kinds import kind
from openpai.kube.objects.kueue import WORKLOADS
from openpai.protocol.errors import Unavailable
from tests.kube.fake_nodes import FakeNodes
from tests.kube.kueue_world import LOCAL_QUEUES, kueue
from tests.outcome import run_pai

__all__ = ["kueue"]


async def findings(
    kubeconfig: Path, namespace: str, queues: Mapping[str, str] | None = None
) -> dict[str, list[Finding]]:
    """Return what is found, by what it is about."""
    found: dict[str, list[Finding]] = {}
    for finding in await cluster_check._findings(cluster_access(kubeconfig), namespace, queues):
        found.setdefault(finding.what, []).append(finding)
    return found


def changed(kubeconfig: Path, directory: Path, change: Callable[[Any], object]) -> Path:
    """Return a copy of a kubeconfig with a change."""
    config = json.loads(kubeconfig.read_text())
    change(config)
    copy = directory / "config"
    copy.write_text(json.dumps(config))
    return copy


async def test_a_sound_cluster_has_no_fault(kube_api: Path, kube_namespace: str, kube_nodes: FakeNodes) -> None:
    await kube_nodes.add(2, gpus=8, resources={"habana.ai/gaudi": "8"})
    found = await findings(kube_api, kube_namespace)
    assert "fault" not in {finding.state for every in found.values() for finding in every}
    assert "is Kubernetes v1." in found["API server"][0].message
    assert any("nvidia.com/gpu of a device plugin" in finding.message for finding in found["GPUs"])
    (others,) = [finding for finding in found["GPUs"] if "--kube-gpus" in finding.advice]
    assert "habana.ai/gaudi" in others.message
    assert found["clock"][0].state == "ok"


async def test_faults_name_what_to_do(kube_api: Path, kube: KubeClient, kube_namespace: str) -> None:
    await kube.patch(
        NAMESPACES, kube_namespace, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    )
    limits = {"metadata": {"name": "limits"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "500m"}}]}}
    await kube.create(kind("v1", "LimitRange", "limitranges"), limits, kube_namespace)
    found = await findings(kube_api, kube_namespace)
    assert [finding.state for finding in found["namespace"]] == ["fault", "warning"]
    assert f"kubectl label --overwrite namespace {kube_namespace}" in found["namespace"][0].advice
    assert "the pod of a task would be refused" in found["pods"][0].message

    found = await findings(kube_api, "nowhere-at-all")
    assert found["namespace"][0].message == "nowhere-at-all does not exist"
    assert found["namespace"][0].advice.startswith("kubectl create namespace nowhere-at-all")
    assert "pods" not in found

    (named,) = (await findings(kube_api, "Not_A_Name"))["namespace"]
    assert "cannot be the name of a namespace" in named.message

    # There is no controller here that would bring its deletion to an end.
    await kube.delete(NAMESPACES, kube_namespace)
    found = await findings(kube_api, kube_namespace)
    assert [finding.message for finding in found["namespace"]] == [
        f"{kube_namespace} is being deleted, so nothing can be created in it"
    ]
    assert "pods" not in found


async def test_missing_rights_are_listed(kube_api: Path, kube_namespace: str, tmp_path: Path) -> None:
    limited = changed(kube_api, tmp_path, lambda config: config["users"][0]["user"].update({"as": "someone"}))
    found = await findings(limited, kube_namespace)
    assert f"get pods in {kube_namespace}" in found["rights"][0].message
    assert found["nodes"][0].state == "fault"


async def test_what_jobs_that_kueue_admits_need_is_looked_at(
    kube_api: Path, kube: KubeClient, kube_namespace: str, tmp_path: Path, kueue: None
) -> None:
    queues = {"vision": "team-vision", "speech": "speech", "robots": "team-vision"}
    found = (await findings(kube_api, kube_namespace, queues))["Kueue"]
    assert [finding.state for finding in found] == ["ok", "fault", "fault"]
    assert found[0].message == "the cluster serves kueue.x-k8s.io/v1beta1"
    absent = f"the LocalQueue team-vision, for jobs of vision, robots, does not exist in {kube_namespace}"
    assert (found[1].message, found[1].advice) == (absent, f"create it, or name another one of {kube_namespace}")

    kinds = {"apiVersion": LOCAL_QUEUES.api_version, "kind": LOCAL_QUEUES.name}
    body = {**kinds, "metadata": {"name": "team-vision"}, "spec": {"clusterQueue": "all"}}
    await kube.create(LOCAL_QUEUES, body, kube_namespace)
    _, silent, missing = (await findings(kube_api, kube_namespace, queues))["Kueue"]
    assert silent.state == "warning"
    assert "Kueue has said nothing yet about the LocalQueue team-vision" in silent.message
    assert "which has team-vision" in missing.advice
    for status, state in (("False", "fault"), ("True", "ok")):
        condition = {"type": "Active", "status": status, "message": "Can't submit new workloads to clusterQueue"}
        written = {"status": {"conditions": [condition]}}
        await kube.patch(LOCAL_QUEUES, "team-vision", written, kube_namespace, subresource="status")
        _, queue, _ = (await findings(kube_api, kube_namespace, queues))["Kueue"]
        assert queue.state == state
        assert ("admits nothing now: Can't submit new workloads" in queue.message) is (state == "fault")

    limited = changed(kube_api, tmp_path, lambda config: config["users"][0]["user"].update({"as": "someone"}))
    _, rights, queue, _ = (await findings(limited, kube_namespace, queues))["Kueue"]
    assert rights.state == "fault"
    for right in ("list", "watch", "create", "patch", "delete"):
        assert f"{right} workloads in {kube_namespace}" in rights.message
    assert f"patch workloads/status in {kube_namespace}" in rights.message
    assert queue.state == "warning"
    assert "cannot be looked for" in queue.message


async def test_a_cluster_without_kueue_or_with_another_version_is_a_fault(
    kube_api: Path, kube_namespace: str, kueue: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Kueue" not in await findings(kube_api, kube_namespace)
    monkeypatch.setattr("openpai.kube.objects.kueue.VERSIONS", ("kueue.x-k8s.io/v1beta3",))
    (found,) = (await findings(kube_api, kube_namespace, {"vision": "team-vision"}))["Kueue"]
    assert found.message == "it serves kueue.x-k8s.io as v1beta1, and this server knows v1beta3"
    monkeypatch.setattr("openpai.kube.objects.kueue.GROUP", "absent.example.org")
    (found,) = (await findings(kube_api, kube_namespace, {"vision": "team-vision"}))["Kueue"]
    assert found.state == "fault"
    assert found.advice == "install Kueue, or start the server without --kueue-queues"


async def test_workloads_without_a_queue_are_named(
    kube_api: Path, kube: KubeClient, kube_namespace: str, kueue: None
) -> None:
    labels = {"openpai/part": "admission"}
    kinds = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.name}
    body = {**kinds, "metadata": {"name": "pai-1", "labels": labels}, "spec": {}}
    await kube.create(WORKLOADS, body, kube_namespace)
    (found,) = (await findings(kube_api, kube_namespace))["Kueue"]
    assert found.message.startswith(f"1 Workload of jobs is in {kube_namespace}")
    command = f"kubectl delete workloads.kueue.x-k8s.io -n {kube_namespace} -l openpai/part=admission"
    assert command in found.advice


async def test_a_cluster_that_does_not_answer_is_one_fault(kube_api: Path, tmp_path: Path) -> None:
    address = "https://127.0.0.1:1"
    away = changed(kube_api, tmp_path, lambda config: config["clusters"][0]["cluster"].update(server=address))
    found = await findings(away, "default")
    assert list(found) == ["API server"]
    assert f"{address} cannot be used" in found["API server"][0].message


def test_the_command_prints_findings_and_exits_with_1_for_a_fault(kube_api: Path) -> None:
    assert main.CLUSTER
    options = ("--kubeconfig", str(kube_api), "--kube-namespace", "nowhere-at-all")
    printed = run_pai("cluster", "check", *options)
    assert printed.code == 1
    assert "fault   namespace: nowhere-at-all does not exist; kubectl create namespace nowhere-at-all" in printed.out
    as_json = run_pai("cluster", "check", *options, "--json")
    assert as_json.json()["namespace"] == "nowhere-at-all"


async def test_the_job_on_the_page_about_kueue_is_one(kube: KubeClient, kube_namespace: str) -> None:
    page = (Path(__file__).parents[2] / "docs/kueue.md").read_text()
    job = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0])
    job["metadata"]["namespace"] = kube_namespace
    path = f"/apis/batch/v1/namespaces/{kube_namespace}/jobs"
    made = json.loads(await kube.raw("POST", path, job, fieldValidation="Strict", dryRun="All"))
    assert made["spec"]["suspend"] is True
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "vision"


async def test_a_server_says_what_to_do_about_a_namespace_that_it_cannot_use(
    kube_api: Path, kube_namespace: str, tmp_path: Path
) -> None:
    limited = changed(kube_api, tmp_path, lambda config: config["users"][0]["user"].update({"as": "someone"}))
    for config, namespace, advice in (
        (kube_api, "nowhere-at-all", "kubectl create namespace nowhere-at-all, or name another one"),
        (limited, kube_namespace, f"`pai cluster check --kube-namespace {kube_namespace}` says what is missing"),
    ):
        options = KubernetesOptions(namespace=namespace)
        backend = KubernetesBackend(cluster_access(config), b"secret", SystemClock(), options)
        with pytest.raises(Unavailable) as refused:
            await backend.open()
        assert refused.value.advice.startswith(advice)
