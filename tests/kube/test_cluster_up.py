"""`pai cluster` on a real API server without nodes: what is refused, interrupted, continued, and said about it."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from openpai.app.cluster import lock
from openpai.app.cluster.target import target
from openpai.cli.exits import Exit
from openpai.kube.client import KubeClient
from openpai.kube.config import cluster_access
from tests.e2e.server import until
from tests.kube.test_chart import Cluster, cluster, needs_helm
from tests.outcome import Outcome, run_pai

__all__ = ["cluster"]
pytestmark = [needs_helm, pytest.mark.slow]
Pai = Callable[..., Outcome]


@pytest.fixture
def pai(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Pai:
    """`pai cluster COMMAND` for a release of this test."""
    place = ("--kubeconfig", str(cluster.kubeconfig), "--namespace", cluster.name)

    def run(command: str, *words: str) -> Outcome:
        return run_pai("cluster", command, *place, *words)

    monkeypatch.setattr(lock, "LEASE_S", 1)
    return run


def up(pai: Pai, cluster: Cluster, *words: str) -> Outcome:
    """Install, which cannot become ready here: there is no node."""
    return pai("up", "--set", f"jobs.namespace={cluster.jobs}", "--yes", "--timeout-s", "1", *words)


def interrupt(cluster: Cluster, *, is_ours: bool) -> None:
    """Leave the newest revision as Helm does when it is killed."""
    name = "sh.helm.release.v1.openpai.v1"
    packed = base64.b64decode(base64.b64decode(cluster.get("secrets", name)["data"]["release"]))
    record = json.loads(gzip.decompress(packed))
    record["info"]["status"] = "pending-install"
    again = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(record).encode()))).decode()
    labels = {"status": "pending-install", "openpai-command": "true" if is_ours else None}
    merge = {"Content-Type": "application/merge-patch+json"}
    path = f"/api/v1/namespaces/{cluster.name}/secrets/{name}"
    cluster.ask("PATCH", path, {"data": {"release": again}, "metadata": {"labels": labels}}, headers=merge)


def test_what_keeps_it_from_being_ready_is_named_and_the_command_goes_on(pai: Pai, cluster: Cluster) -> None:
    first = up(pai, cluster)
    assert first.code == Exit.UNAVAILABLE
    assert "create  Deployment openpai" in first.out
    assert "not ready after 1 s: volume openpai: has no volume, and there is no default storage class" in first.err
    assert "storage.storageClassName" in first.err
    key = cluster.get("secrets", "openpai-key")["data"]

    interrupt(cluster, is_ours=True)
    again = up(pai, cluster, "--set", "service.port=81")
    assert "revision 1 was interrupted (pending-install); it is continued" in again.out
    assert again.code == Exit.UNAVAILABLE
    assert cluster.get("services", "openpai")["spec"]["ports"][0]["port"] == 81
    assert cluster.get("secrets", "openpai-key")["data"] == key

    # Values of before stay, and what is there already is not changed.
    third = up(pai, cluster)
    assert "no object changes" in third.out
    assert cluster.get("services", "openpai")["spec"]["ports"][0]["port"] == 81
    history = json.loads(cluster.helm("history", "-o", "json"))
    assert [one["status"] for one in history] == ["superseded", "deployed"]
    # What was interrupted is nothing to go back to.
    assert "no earlier revision that worked" in pai("rollback", "--yes").err

    shown = pai("status", "--json")
    assert shown.code == 1
    assert "volume openpai" in {one["what"] for one in shown.json()["problems"]}


@pytest.mark.full
def test_what_another_program_began_is_left_alone(pai: Pai, cluster: Cluster) -> None:
    assert up(pai, cluster).code == Exit.UNAVAILABLE
    interrupt(cluster, is_ours=False)
    refused = up(pai, cluster)
    assert refused.code == 2
    assert "another program changes release openpai: revision 1 is pending-install" in refused.err
    assert "helm rollback openpai" in refused.err


@pytest.mark.full
async def test_two_commands_do_not_change_a_release_at_once(pai: Pai, cluster: Cluster) -> None:
    at = target(cluster.kubeconfig, None, cluster.name, "openpai")
    lock_renews_s, lock._RENEW_S = lock._RENEW_S, 0.2
    try:
        async with KubeClient(cluster_access(cluster.kubeconfig)) as client, lock.alone(client, at):
            refused = await asyncio.to_thread(up, pai, cluster)
            assert refused.code == Exit.UNAVAILABLE
            assert "is changing release openpai" in refused.err
            assert cluster.labelled("secrets", "owner=helm") == []
    finally:
        lock._RENEW_S = lock_renews_s


@pytest.mark.full
def test_a_command_that_was_killed_holds_nothing_back(pai: Pai, cluster: Cluster) -> None:
    lease = {"metadata": {"name": "openpai-command"}, "spec": {"holderIdentity": "ann@there, process 7"}}
    cluster.ask("POST", f"/apis/coordination.k8s.io/v1/namespaces/{cluster.name}/leases", lease)
    done = up(pai, cluster)
    assert "ann@there, process 7 changed this release last" in done.err
    assert "create  Deployment openpai" in done.out
    assert cluster.get("deployments", "openpai")


def test_nothing_changes_without_consent_or_with_another_cluster_s_name(pai: Pai, cluster: Cluster) -> None:
    dry = up(pai, cluster, "--dry-run", "--json")
    assert {one["what"] for one in dry.json()["changes"]} == {"create"}
    asked = pai("up", "--set", f"jobs.namespace={cluster.jobs}")
    assert asked.code == 2
    assert "give --yes to confirm" in asked.err
    assert cluster.labelled("secrets", "owner=helm") == []

    up(pai, cluster)
    refused = pai("down", "--confirm", "another", "--delete-data")
    assert refused.code == 2
    assert "'another' is not 'test': nothing was done" in refused.err
    unasked = pai("down")
    assert "give --confirm test" in unasked.err
    assert cluster.get("deployments", "openpai")


def test_what_is_removed_leaves_its_data_and_the_next_installation_finds_them(pai: Pai, cluster: Cluster) -> None:
    up(pai, cluster)
    key = cluster.get("secrets", "openpai-key")["data"]
    removed = pai("down", "--confirm", "test", "--json")
    assert removed.json()["objects"] == ["volume openpai", "secret openpai-key"]
    up(pai, cluster)
    assert cluster.get("secrets", "openpai-key")["data"] == key
    gone = pai("down", "--confirm", "test", "--delete-data", "--json")
    assert gone.code == 0, gone.err
    for kind in ("secrets", "persistentvolumeclaims"):
        assert not cluster.labelled(kind, "app.kubernetes.io/instance=openpai")
    assert cluster.http.get(f"/api/v1/namespaces/{cluster.jobs}").status_code == 404


@pytest.mark.parametrize(
    ("name", "what"), [("--namespace Not_A_Name", "a namespace"), (f"--release {'r' * 54}", "a release")]
)
def test_a_name_that_cannot_exist_is_refused_before_anything_is_planned(cluster: Cluster, name: str, what: str) -> None:
    option, word = name.split()
    refused = run_pai("cluster", "up", "--kubeconfig", str(cluster.kubeconfig), option, word, "--yes")
    assert refused.code == 2
    assert f"{option}: '{word}' cannot be the name of {what}" in refused.err
    assert "create" not in refused.out


def test_a_volume_of_a_class_that_does_not_exist_is_made_again_with_another_one(pai: Pai, cluster: Cluster) -> None:
    first = up(pai, cluster, "--set", "storage.storageClassName=misspelt")
    assert first.code == Exit.UNAVAILABLE
    assert 'has no volume of storage class misspelt: storageclass.storage.k8s.io "misspelt" not found' in first.err
    remove = f"kubectl -n {cluster.name} delete persistentvolumeclaim openpai"
    assert remove in first.err

    refused = up(pai, cluster, "--set", "storage.storageClassName=other")
    assert refused.code == 2
    [message] = [line for line in refused.err.splitlines() if "is immutable" in line]
    assert message == (
        'helm upgrade: PersistentVolumeClaim "openpai" is invalid: spec: Forbidden: spec is immutable after creation'
    )
    assert remove in refused.err

    cluster.ask("DELETE", f"/api/v1/namespaces/{cluster.name}/persistentvolumeclaims/openpai")
    claims = "app.kubernetes.io/instance=openpai"
    until(lambda: not cluster.labelled("persistentvolumeclaims", claims), "the claim is gone")
    done = up(pai, cluster, "--set", "storage.storageClassName=other")
    assert done.code == Exit.UNAVAILABLE
    assert "has no volume of storage class other" in done.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is a directory, not a YAML file with values of the chart"),
        (b"\xff\x00", "is not UTF-8 text"),
        (b"- replicas: 2", "has no values with names"),
        (b"a: [1", "failed to parse"),
    ],
)
def test_a_file_without_values_is_refused(
    cluster: Cluster, tmp_path: Path, content: bytes | None, message: str
) -> None:
    file = tmp_path / "values.yaml"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    place = ("--kubeconfig", str(cluster.kubeconfig), "--namespace", cluster.name)
    refused = run_pai("cluster", "up", *place, "--values", str(file), "--dry-run")
    assert refused.code == 2
    [line] = [line for line in refused.err.splitlines() if str(file) in line]
    assert message in line


def test_what_is_being_deleted_is_waited_for(pai: Pai, cluster: Cluster) -> None:
    up(pai, cluster)
    assert pai("down", "--confirm", "test").code == 0
    path = f"/api/v1/namespaces/{cluster.name}/persistentvolumeclaims/openpai"
    merge = {"Content-Type": "application/merge-patch+json"}
    cluster.ask("PATCH", path, {"metadata": {"finalizers": ["openpai.example.org/busy"]}}, headers=merge)
    late = pai("down", "--confirm", "test", "--delete-data", "--timeout-s", "1")
    for refused in (late, up(pai, cluster)):
        assert refused.code == Exit.UNAVAILABLE
        assert "still being deleted after 1 s: volume openpai" in refused.err
        assert f"see `kubectl describe pvc openpai -n {cluster.name}`" in refused.err
    assert cluster.labelled("secrets", "owner=helm") == []
    cluster.ask("PATCH", path, {"metadata": {"finalizers": None}}, headers=merge)
    jobs = f"/api/v1/namespaces/{cluster.jobs}"
    until(lambda: cluster.http.get(jobs).status_code == 404, "the namespace of the jobs is gone")
    up(pai, cluster)
    assert "deletionTimestamp" not in cluster.get("persistentvolumeclaims", "openpai")["metadata"]


def test_a_chart_that_refuses_values_says_why_and_nothing_is_there_to_go_back_to(pai: Pai, cluster: Cluster) -> None:
    refused = up(pai, cluster, "--set", "replicas=2")
    assert "2 replicas need PostgreSQL" in refused.err
    for command in ("upgrade", "rollback", "status"):
        assert "pai cluster up" in pai(command).err
    up(pai, cluster)
    assert "no earlier revision that worked" in pai("rollback", "--yes").err
