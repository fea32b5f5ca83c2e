"""`pai cluster up|status|upgrade|rollback|backup|restore|down` with the real image, kubelet, containerd and registry.

There is no network: the image comes out of a bundle.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from tests.e2e.server import PROGRAMS, Person, environment
from tests.kube.images import SHELL_IMAGE
from tests.kube.node import RealNode, real_node, why_no_node
from tests.kube.platform_image import api_server_for_pods, build_image
from tests.kube.server import control_plane
from tests.kube.test_chart import _await, needs_helm
from tests.outcome import Outcome
from tests.ports import free_port

pytestmark = [pytest.mark.full, needs_helm, pytest.mark.timeout(1800)]
PREVIOUS: Final = Path(__file__).with_name("charts") / "openpai-0.2.0.tgz"
PASSWORD: Final = "correct horse battery"
_JOB: Final = """
protocolVersion: 2
name: {name}
type: job
prerequisites: [{{type: dockerimage, name: shell, uri: "{image}"}}]
taskRoles:
  worker:
    instances: 1
    dockerImage: shell
    resourcePerInstance: {{cpu: 1, memoryMB: 64, gpu: 0}}
    commands: [echo started, exec sleep 3000]
"""


class World:
    """A node without a network, a bundle, and one release."""

    def __init__(self, node: RealNode, place: Path) -> None:
        self.node, self.place = node, place
        self.home = place / "home"
        self.name = "openpai"
        self.bundle, self.newer = place / "bundle.tar", place / "newer.tar"
        self.values = place / "values.yaml"

    def pai(self, *line: str, code: int = 0, stdin: str = "") -> Outcome:
        """Run `pai` as an administrator would, in this process."""
        path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
        kubeconfig = str(self.node.plane.kubeconfig)
        ran = Person(environment(KUBECONFIG=kubeconfig, HOME=str(self.home), PATH=path))(*line, stdin=stdin)
        assert ran.code == code, f"{ran.out}\n{ran.err}\n{self._why()}"
        return ran

    def cluster(self, command: str, *line: str, code: int = 0) -> Any:
        """Run `pai cluster COMMAND --json` and return what it prints."""
        return json.loads(self.pai("cluster", command, *line, "--json", code=code).out or "{}")

    def get(self, *what: str, namespace: str = "openpai") -> Any:
        """Return objects."""
        return json.loads(self.node.plane.kubectl("get", *what, "-n", namespace, "-o", "json"))

    @contextlib.contextmanager
    def login(self) -> Iterator[str]:
        """Forward a port to the server, log in as administrator, and yield the URL."""
        port = free_port()
        line = ["kubectl", f"--kubeconfig={self.node.plane.kubeconfig}", "-n", "openpai", "port-forward"]
        forward = subprocess.Popen([*line, "deployment/openpai", f"{port}:9186"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)  # fmt: skip
        url = f"http://127.0.0.1:{port}"
        try:
            _await(lambda: self._logged_in(url), "login through a forwarded port")
            yield url
        finally:
            forward.kill()
            forward.wait(30)

    def _logged_in(self, url: str) -> bool:
        with contextlib.suppress(AssertionError, httpx.HTTPError):
            httpx.get(f"{url}/readyz").raise_for_status()
            self.pai("login", "--url", url, "--user", "admin", "--password-stdin", stdin=f"{PASSWORD}\n")
            return True
        return False

    def submit(self, name: str) -> None:
        """Submit a job. Two at once may be more than this machine has room for."""
        file = self.place / f"{name}.yaml"
        file.write_text(_JOB.format(name=name, image=SHELL_IMAGE))
        with self.login():
            self.pai("job", "submit", str(file))

    def running(self, name: str) -> dict[str, Any] | None:
        """Return the pod of a job if it runs."""
        pods = json.loads(self.node.plane.get("/api/v1/namespaces/openpai-jobs/pods?labelSelector=openpai/scope"))
        pod = next((pod for pod in pods["items"] if pod["status"].get("phase") == "Running"), None)
        if pod is None:
            return None
        # A login through a forwarded port takes a second, so the platform is asked only when it may say yes.
        with self.login():
            shown = json.loads(self.pai("job", "show", name, "--json").out)
        return pod if shown["jobStatus"]["state"] == "RUNNING" else None

    def pods_of_jobs(self) -> set[tuple[str, str, str, int]]:
        """Return each pod of a task: its name, UID, container and number of restarts."""
        found = self.get("pods", "-l", "openpai/scope", namespace="openpai-jobs")["items"]
        return {
            (pod["metadata"]["name"], pod["metadata"]["uid"], one["containerID"], one["restartCount"])
            for pod in found
            for one in pod["status"].get("containerStatuses", ())
            if "running" in one["state"]
        }

    def _why(self) -> str:
        with contextlib.suppress(RuntimeError):
            return self.node.plane.kubectl("get", "pods,events", "-A", "-o", "wide")[-3000:]
        return ""


@pytest.fixture(scope="module")
def world(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A node with a volume, and nothing of the platform yet."""
    if reason := why_no_node():
        pytest.skip(reason)
    place = tmp_path_factory.mktemp("world")
    (place / "home").mkdir()
    network = f"10.96.{int(uuid.uuid4().hex[:2], 16)}"
    with control_plane(controllers=True, services=network) as plane, real_node(plane, subnet=243) as node:
        made = World(node, place)
        for bundle, tag in ((made.bundle, "openpai:0.2.0"), (made.newer, "openpai:0.2.1")):
            made.cluster("bundle", str(bundle), "--image", str(build_image(image, place / "image.tar", tag)))
        (place / "volume").mkdir()
        (place / "volume").chmod(0o777)
        node.plane.kubectl("apply", "--validate=false", "-f", "-", stdin=json.dumps(_volume(place / "volume")))
        node.plane.kubectl("create", "namespace", "openpai")
        secret = ("create", "secret", "generic", "first", "-n", "openpai", f"--from-literal=password={PASSWORD}")
        node.plane.kubectl(*secret)
        values = {"admin": {"existingSecret": "first"}, "storage": {"storageClassName": "by-hand", "size": "1Gi"},
                  "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}  # fmt: skip
        made.values.write_text(yaml.safe_dump(values))
        with api_server_for_pods(node):
            yield made


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """The address of a private registry on this machine."""
    program = shutil.which("docker-registry") or shutil.which("registry")
    if program is None:
        pytest.skip("no registry: apt install docker-registry")
    port = free_port()
    config = {"version": "0.1", "http": {"addr": f"127.0.0.1:{port}"},
              "storage": {"filesystem": {"rootdirectory": str(tmp_path / "registry")}}}  # fmt: skip
    (tmp_path / "registry.yml").write_text(yaml.safe_dump(config))
    with (tmp_path / "registry.log").open("wb") as log:
        process = subprocess.Popen([program, "serve", str(tmp_path / "registry.yml")], stdout=log, stderr=log)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait(30)


def test_a_cluster_is_installed_upgraded_rolled_back_saved_restored_and_removed(world: World, registry: str) -> None:
    up = ("--chart", str(PREVIOUS), "--bundle", str(world.bundle), "--containerd", str(world.node.socket),
          "--values", str(world.values))  # fmt: skip
    shown = world.pai("cluster", "up", *up, "--dry-run").out
    assert "create  Deployment openpai" in shown
    refused = world.pai("cluster", "up", *up, code=2)
    assert "give --yes to confirm" in refused.err
    assert world.cluster("up", *up, "--yes")["ready"]
    again = world.pai("cluster", "up", *up, "--yes")
    assert "no object changes" in again.out
    world.submit("before")
    pod = _await(lambda: world.running("before"), "pod of the job", 120)
    before = world.pods_of_jobs()
    assert {one[0] for one in before} == {pod["metadata"]["name"]}

    status = world.cluster("status")
    assert status["problems"] == []
    assert status["tasks"] == 1
    assert status["leader"]

    # To the chart of this code, with the image from a registry; the job runs on in the same container.
    saved = world.place / "upgrade.backup"
    upgraded = world.cluster(
        "upgrade", "--bundle", str(world.newer), "--registry", f"http://{registry}/ai", "--backup", str(saved), "--yes"
    )
    assert upgraded["backup"] == str(saved)
    image = world.get("deployment", "openpai")["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == f"{registry}/ai/openpai:0.2.1"
    assert world.pods_of_jobs() == before
    assert world.running("before")

    assert world.cluster("rollback", "--yes")["ready"]
    image = world.get("deployment", "openpai")["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == "openpai:0.2.0"
    assert world.pods_of_jobs() == before
    assert world.running("before")

    _save_and_restore(world)
    _remove(world)


def _save_and_restore(world: World) -> None:
    file = world.place / "saved.backup"
    key = world.place / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    world.cluster("backup", str(file), "--recipient", str(key.with_suffix(".pub")))
    assert b"age-encryption.org" in file.read_bytes()[:64]
    world.submit("later")
    refused = world.pai("cluster", "restore", str(file), "--identity", str(key), "--confirm", "prod", code=2)
    assert "nothing was done" in refused.err
    assert world.pods_of_jobs()
    world.cluster("restore", str(file), "--identity", str(key), "--confirm", "test")
    with world.login():
        listed = json.loads(world.pai("job", "list", "--json").out)
    assert {job["name"] for job in listed["data"]} == {"before"}
    # The job of that time starts again, which a lower epoch would not allow.
    _await(lambda: world.running("before"), "job of the backup", 120)


def _remove(world: World) -> None:
    world.cluster("down", "--confirm", "test")
    assert world.pods_of_jobs()
    assert world.get("persistentvolumeclaims")["items"]
    image = ("--set", "image.repository=openpai", "--set", "image.tag=0.2.0")
    world.cluster("up", "--values", str(world.values), *image, "--yes")
    _await(lambda: world.running("before"), "job found again", 120)
    world.cluster("down", "--confirm", "test", "--delete-data")
    assert not world.get("persistentvolumeclaims")["items"]
    gone = ("get", "namespace", "openpai-jobs", "--ignore-not-found")
    _await(lambda: not world.node.plane.kubectl(*gone), "removal of the jobs' namespace")


def _volume(path: Path) -> dict[str, Any]:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
            "hostPath": {"path": str(path)}}  # fmt: skip
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "by-hand"}, "spec": spec}
