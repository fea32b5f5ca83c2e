"""Jobs admitted by queues of Kueue: its objects on a real API server, once with Kueue itself and once without."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from cryptography.fernet import Fernet

from openpai.app.clock import SystemClock
from openpai.app.kueue_check import check_kueue
from openpai.backends.kubernetes.admission import KueueAdmission
from openpai.backends.kubernetes.backend import KubernetesBackend
from openpai.backends.kubernetes.options import KubernetesOptions
from openpai.backends.kubernetes.seals import Seals
from openpai.kube.client import KubeClient
from openpai.kube.config import cluster_access
from openpai.kube.objects.kinds import NAMESPACES, kind
from openpai.kube.objects.kueue import WORKLOADS
from openpai.ports.admission import Admission, AdmissionRequest, AdmissionState, TasksAsked
from tests.kube.certificates import Authority
from tests.kube.fake_nodes import FakeNodes
from tests.kube.kueue_world import kueue
from tests.kube.server import ASSETS, ControlPlane, control_plane, die_with_parent, why_not
from tests.kube.servers import Replica, server, until
from tests.ports import free_port

__all__ = ["kueue"]

_ASKED: Final = AdmissionRequest("j1", "ann~train", "team-a", 10, (TasksAsked("Worker_A", 2, 4, 1024, 1),))


class Moves:
    """What Kueue would write."""

    def __init__(self, kube: KubeClient, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace

    async def workloads(self) -> list[Any]:
        """Return every Workload, whole."""
        whole = kind(WORKLOADS.api_version, WORKLOADS.name, WORKLOADS.plural)
        return await self._kube.list(whole, self._namespace)

    async def one(self) -> Any:
        """Return the only Workload, once there is one."""
        await until(self._is_one)
        return (await self.workloads())[0]

    async def _is_one(self) -> bool:
        return len(await self.workloads()) == 1

    async def say(self, name: str, admission: Mapping[str, Any] | None, **conditions: tuple[str, str]) -> None:
        """Write a status: by condition, whether it holds and why."""
        written = [
            {
                "type": type_,
                "status": status,
                "reason": "Test",
                "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for type_, (status, message) in conditions.items()
        ]
        body = {"status": {"admission": admission, "conditions": written}}
        await self._kube.patch(WORKLOADS, name, body, self._namespace, subresource="status")


@pytest.fixture
def moves(kube: KubeClient, kube_namespace: str, kueue: None) -> Moves:
    return Moves(kube, kube_namespace)


@contextlib.asynccontextmanager
async def admission_of(
    kube: KubeClient, namespace: str, gpus: str = "nvidia.com/gpu", *, scope: str = "scope"
) -> AsyncIterator[KueueAdmission]:
    """Return the admission of a platform."""
    admission = KueueAdmission(
        kube,
        namespace,
        scope,
        SystemClock(),
        tolerations=[{"key": "gpu", "operator": "Exists"}],
        gpu_resource=lambda: gpus,
    )
    async with admission:
        yield admission


async def until_state(admission: KueueAdmission, state: AdmissionState, message: str = "") -> None:
    """Wait for news until the job has a state."""
    async with asyncio.timeout(30):
        while admission.state("j1") != Admission(state, message):
            assert "j1" in await admission.news()


async def test_a_workload_asks_for_all_tasks_of_a_job_and_is_kept_until_the_job_is_over(
    kube: KubeClient, kube_namespace: str, moves: Moves
) -> None:
    async with admission_of(kube, kube_namespace, "amd.com/gpu") as admission:
        admission.request(_ASKED)
        made = await moves.one()
        assert made.spec["queueName"] == "team-a"
        assert made.spec["priority"] == 10
        (pods,) = made.spec["podSets"]
        assert (pods["name"], pods["count"]) == ("worker-a-0", 2)
        pod = pods["template"]["spec"]
        assert pod["containers"][0]["resources"]["requests"] == {"cpu": "4", "memory": "1024Mi", "amd.com/gpu": "1"}
        assert pod["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
        await moves.say(made.name, None, QuotaReserved=("False", "no quota is left"))
        await until_state(admission, AdmissionState.WAITING, "no quota is left")
        await moves.say(made.name, {"clusterQueue": "all"}, QuotaReserved=("True", ""), Admitted=("True", ""))
        await until_state(admission, AdmissionState.ADMITTED)
    async with admission_of(kube, kube_namespace) as another:
        # A server that takes over reads what is there, and asks for nothing twice.
        await until_state(another, AdmissionState.ADMITTED)
        another.withdraw("j1")
        await until_state(another, AdmissionState.GONE)
        assert await moves.workloads() == []
        another.request(_ASKED)
        assert (await moves.one()).uid != made.uid


async def test_an_evicted_job_gives_its_quota_back_once_it_has_left(
    kube: KubeClient, kube_namespace: str, moves: Moves
) -> None:
    async with admission_of(kube, kube_namespace) as admission:
        admission.request(_ASKED)
        made = await moves.one()
        reserved = {"QuotaReserved": ("True", ""), "Admitted": ("True", ""), "Evicted": ("True", "others go first")}
        await moves.say(made.name, {"clusterQueue": "all"}, **reserved)
        await until_state(admission, AdmissionState.EVICTED, "others go first")
        assert (await moves.one()).status["admission"] == {"clusterQueue": "all"}
        admission.request(_ASKED)  # by its job, once it is held again
        await until_state(admission, AdmissionState.WAITING, "the job has left after its eviction")
        after = await moves.one()
        assert after.uid == made.uid
        found = {each["type"]: each["status"] for each in after.status["conditions"]}
        assert found == {"QuotaReserved": "False", "Admitted": "False", "Evicted": "True", "Requeued": "True"}
        assert "admission" not in after.status


async def test_a_job_that_asks_for_something_else_gets_a_new_workload(
    kube: KubeClient, kube_namespace: str, moves: Moves
) -> None:
    async with admission_of(kube, kube_namespace) as admission:
        admission.request(_ASKED)
        made = await moves.one()
        admission.request(replace(_ASKED, queue="team-b"))

        async def is_new() -> bool:
            return [each.spec["queueName"] for each in await moves.workloads()] == ["team-b"]

        await until(is_new)
        assert (await moves.one()).uid != made.uid


async def test_another_priority_changes_the_workload_and_not_its_admission(
    kube: KubeClient, kube_namespace: str, moves: Moves
) -> None:
    async with admission_of(kube, kube_namespace) as admission:
        admission.request(_ASKED)
        made = await moves.one()
        await moves.say(made.name, {"clusterQueue": "all"}, QuotaReserved=("True", ""), Admitted=("True", ""))
        await until_state(admission, AdmissionState.ADMITTED)
    async with admission_of(kube, kube_namespace) as another:
        another.change(replace(_ASKED, priority=100))  # while it runs, and this server knows nothing of it yet

        async def is_changed() -> bool:
            return [each.spec["priority"] for each in await moves.workloads()] == [100]

        await until(is_changed)
        assert (await moves.one()).uid == made.uid
        assert another.state("j1").state is AdmissionState.ADMITTED
        reserved = {"QuotaReserved": ("True", ""), "Admitted": ("True", ""), "Evicted": ("True", "others go first")}
        await moves.say(made.name, {"clusterQueue": "all"}, **reserved)
        await until_state(another, AdmissionState.EVICTED, "others go first")
        another.request(_ASKED)  # it has left, and its priority changed meanwhile
        await until_state(another, AdmissionState.WAITING, "the job has left after its eviction")
        after = await moves.one()
        assert (after.uid, after.spec["priority"]) == (made.uid, 10)


async def test_a_server_without_queues_removes_what_an_earlier_one_asked_for(
    kube_api: Path, kube: KubeClient, kube_namespace: str, moves: Moves
) -> None:
    scope = Seals(b"secret", kube_namespace).scope
    async with admission_of(kube, kube_namespace) as others, admission_of(kube, kube_namespace, scope=scope) as own:
        others.request(_ASKED)
        other = await moves.one()
        own.request(_ASKED)

        async def are_both() -> bool:
            return len(await moves.workloads()) == 2

        await until(are_both)
    options = KubernetesOptions(namespace=kube_namespace)
    backend = KubernetesBackend(cluster_access(kube_api), b"secret", SystemClock(), options)
    await backend.open()
    try:
        assert (await moves.one()).uid == other.uid
    finally:
        await backend.close()


async def test_a_job_reads_why_its_workload_could_not_be_written(kube: KubeClient, kube_namespace: str) -> None:
    async with admission_of(kube, "no-such-namespace") as admission:
        admission.request(_ASKED)
        async with asyncio.timeout(30):
            while "no-such-namespace" not in admission.state("j1").message:
                assert "j1" in await admission.news()


# With Kueue itself.

_CONFIGURATION: Final = """
apiVersion: config.kueue.x-k8s.io/v1beta1
kind: Configuration
health: {{healthProbeBindAddress: "127.0.0.1:{health}"}}
metrics: {{bindAddress: "0"}}
webhook: {{port: {webhook}, certDir: {certificates}}}
leaderElection: {{leaderElect: false}}
internalCertManagement: {{enable: false}}
integrations: {{frameworks: [batch/job]}}
"""
_START: Final = """
mount -t tmpfs tmpfs /etc
mkdir -p /etc/kueue/metrics
cp -r "$1" /etc/kueue/metrics/certs
shift
exec "$@"
"""
"""Kueue without its own management of certificates reads them below /etc, as in its image."""
_QUEUES: Final = """
- {apiVersion: kueue.x-k8s.io/v1beta1, kind: ResourceFlavor, metadata: {name: any}}
- apiVersion: kueue.x-k8s.io/v1beta1
  kind: ClusterQueue
  metadata: {name: all}
  spec:
    namespaceSelector: {}
    preemption: {withinClusterQueue: LowerPriority}
    resourceGroups:
      - coveredResources: [cpu, memory, nvidia.com/gpu]
        flavors:
          - name: any
            resources:
              - {name: cpu, nominalQuota: 100}
              - {name: memory, nominalQuota: 100Gi}
              - {name: nvidia.com/gpu, nominalQuota: 2}
- {apiVersion: kueue.x-k8s.io/v1beta1, kind: LocalQueue, metadata: {name: team-a}, spec: {clusterQueue: all}}
- {apiVersion: kueue.x-k8s.io/v1beta1, kind: LocalQueue, metadata: {name: team-b}, spec: {clusterQueue: none}}
"""


@pytest.fixture
def real_kueue() -> Iterator[ControlPlane]:
    """A Kubernetes with Kueue: its manager lies beside the other binaries, its definitions in kueue-crds there."""
    if reason := why_not("kueue", "kubectl") or ("only root can start Kueue here" if os.geteuid() else ""):
        pytest.skip(reason)
    with control_plane() as plane:
        plane.kubectl("apply", "--server-side", "--validate=false", "-f", str(ASSETS / "kueue-crds"))
        plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        certificates = plane.root / "webhook"
        certificates.mkdir()
        Authority(certificates).issue("tls", "kueue")
        configuration = plane.root / "kueue.yaml"
        configuration.write_text(
            _CONFIGURATION.format(health=free_port(), webhook=free_port(), certificates=certificates)
        )
        with (plane.root / "log" / "kueue.log").open("wb") as log:
            manager = subprocess.Popen(
                ["unshare", "--mount", "sh", "-ec", _START, "kueue", str(certificates), str(ASSETS / "kueue"),
                 f"--config={configuration}", f"--kubeconfig={plane.kubeconfig}",
                 "--feature-gates=VisibilityOnDemand=false"],
                stdout=log, stderr=log, preexec_fn=die_with_parent,
            )  # fmt: skip
        try:
            yield plane
        finally:
            manager.kill()
            manager.wait(30)


@pytest.mark.full
async def test_kueue_admits_evicts_and_admits_again(real_kueue: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    async with contextlib.AsyncExitStack() as stack:
        kube = await stack.enter_async_context(KubeClient(cluster_access(real_kueue.kubeconfig)))
        await kube.create(NAMESPACES, {"metadata": {"name": "jobs"}})
        for body in yaml.safe_load(_QUEUES):
            where = "jobs" if body["kind"] == "LocalQueue" else ""
            plural = f"{body['kind'].lower()}s"
            await kube.create(kind(body["apiVersion"], body["kind"], plural, is_namespaced=bool(where)), body, where)
        await until(lambda: _knows_its_queues(kube))
        nodes = await stack.enter_async_context(FakeNodes(kube, "jobs"))
        await nodes.add(2)
        options = {
            "kubeconfig": real_kueue.kubeconfig, "kube_namespace": "jobs", "node_selector": nodes.label,
            "kueue_queues": "default=team-a",
        }  # fmt: skip
        pai = await stack.enter_async_context(server(tmp_path, Fernet.generate_key().decode(), **options))
        await pai.submit("first")
        await until(lambda: _is(pai, "first", "RUNNING"))
        (older,) = await kube.list(WORKLOADS, "jobs")
        changed = await pai.client.put("/api/v2/jobs/admin~first/priority", json={"value": "prod"})
        assert changed.status_code == 200, changed.text

        async def is_more_urgent() -> bool:
            (now,) = await kube.list(WORKLOADS, "jobs")
            return now.uid == older.uid and now.is_("Admitted") and now.spec.priority == 100

        await until(is_more_urgent)
        await pai.client.put("/api/v2/jobs/admin~first/priority", json={"value": "test"})

        async def is_older() -> bool:
            # Kueue compares times of whole seconds.
            made = older.metadata.creation_timestamp
            return made is not None and datetime.now(UTC) > made + timedelta(seconds=1)

        await until(is_older)
        await pai.submit("second")

        async def says_why() -> bool:
            waits = (await pai.get("/jobs/second/why"))["waits"]
            return any("insufficient unused quota" in wait["message"] for wait in waits)

        await until(says_why)
        await pai.submit("urgent", "extras: {hivedScheduler: {jobPriorityClass: prod}}")
        await until(lambda: _is(pai, "urgent", "RUNNING"))
        assert await pai.state("first") == "WAITING"
        stopped = await pai.client.put("/api/v2/jobs/admin~urgent/executionType", json={"value": "STOP"})
        assert stopped.status_code == 202, stopped.text
        await until(lambda: _is(pai, "first", "RUNNING"))
        assert await pai.state("second") == "WAITING"
        for name in ("first", "second"):
            await pai.client.put(f"/api/v2/jobs/admin~{name}/executionType", json={"value": "STOP"})

        async def is_empty() -> bool:
            return not await kube.list(WORKLOADS, "jobs")

        await until(is_empty)


async def _knows_its_queues(kube: KubeClient) -> bool:
    async def all_allowed(*_: object) -> list[str]:
        return []

    queues = {"default": "team-a", "vision": "team-b", "speech": "team-c"}
    found = await check_kueue(kube, "jobs", queues, all_allowed)
    assert found[-1].message == "the LocalQueue team-c, for jobs of speech, does not exist in jobs"
    assert found[-1].advice.endswith("which has team-a, team-b")
    states = [finding.state for finding in found]
    return states == ["ok", "ok", "fault", "fault"] and "admits nothing now" in found[2].message


async def _is(pai: Replica, name: str, state: str) -> bool:
    return await pai.state(name) == state
