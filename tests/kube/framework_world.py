"""A platform that serves FrameworkController's objects of a real API server."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from openpai.client import Client
from openpai.frameworks.objects import crd
from openpai.kube.config import cluster_access
from tests.e2e.server import PASSWORD, Server
from tests.fork_server import start_pai
from tests.kube.server import ASSETS
from tests.pauses import Pauses

WITHIN_S = 120.0
ANN = {"ann": "ann.token"}
Done = Callable[[dict[str, Any]], object]


class World:
    """A namespace, a platform with users ann and bob, and the process that serves Frameworks.

    The tests share it, so each has names of its own.
    """

    def __init__(self, kubeconfig: Path, namespace: str, server: Server, place: Path) -> None:
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self.server = server
        self.place = place
        self.process: subprocess.Popen[bytes] | None = None
        with Client(server.url) as anyone:
            token = anyone.login("admin", PASSWORD).token
        self.pai = Client(server.url, token, user="admin")
        for user in ("ann", "bob"):
            self.pai.add_user(user, PASSWORD)
            with Client(server.url) as anyone:
                (place / f"{user}.token").write_text(anyone.login(user, PASSWORD).token + "\n")
        access = cluster_access(kubeconfig)
        self.frameworks = httpx.Client(base_url=access.server, verify=access.tls())
        self.config = place / "frameworks.yaml"
        self.users: dict[str, str] = {}
        self._earlier: set[str] = set()
        self.kubectl("create", "namespace", namespace)
        # A new API server does not know at once how to validate.
        self.kubectl("apply", "--validate=false", "-f", "-", stdin=crd())
        self.kubectl("wait", "--for=condition=Established", "crd/frameworks.frameworkcontroller.microsoft.com")

    def begin(self) -> None:
        """Serve the Frameworks of ann, for another test."""
        if self.users != ANN:
            self.end()
            self.configure(ANN)
        if self.process is None:
            self.start()
        self._earlier.update(job.full_name for job in self.pai.all_jobs())

    def configure(self, users: dict[str, str]) -> None:
        self.users = users
        grant = {"users": users, "virtualClusters": ["default"]}
        self.config.write_text(yaml.safe_dump({"namespaces": {self.namespace: grant}}))

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        command = [str(ASSETS / "kubectl"), f"--kubeconfig={self.kubeconfig}", "-n", self.namespace, *arguments]
        ran = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60)
        if ran.returncode:
            raise RuntimeError(ran.stderr)
        return ran.stdout

    def start(self, kubeconfig: Path | None = None) -> None:
        ready = self.place / "serving.json"
        ready.unlink(missing_ok=True)
        options = ["--config", self.config, "--url", self.server.url, "--kubeconfig", kubeconfig or self.kubeconfig]
        with (self.place / "serve.log").open("ab") as log:
            words = ["frameworks", "serve", *map(str, options), "--poll-s", "0.1", "--ready-file", str(ready)]
            self.process = start_pai(words, os.environ, log)
        self.until(ready.exists, "serve did not start")

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(how)
            process.wait(30)

    def until(self, is_so: Callable[[], object], what: str) -> None:
        limit_s, pauses = time.monotonic() + WITHIN_S, Pauses()
        while not is_so():
            if time.monotonic() > limit_s:
                pytest.fail(f"{what}:\n{(self.place / 'serve.log').read_text()[-3000:]}")
            time.sleep(pauses.next_s())

    def apply(self, name: str, *roles: dict[str, Any], **spec: Any) -> None:
        annotations = spec.pop("annotations", {})
        document = {
            "apiVersion": "frameworkcontroller.microsoft.com/v1",
            "kind": "Framework",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "executionType": "Start",
                "retryPolicy": {"fancyRetryPolicy": True, "maxRetryCount": 0},
                **spec,
                "taskRoles": list(roles),
            },
        }
        # As `kubectl apply --server-side` does.
        manager = {"fieldManager": "tests", "force": "true"}
        headers = {"Content-Type": "application/apply-patch+yaml"}
        self._asked("PATCH", name, content=json.dumps(document), params=manager, headers=headers)

    def framework(self, name: str) -> Any:
        return self._asked("GET", name)

    def _asked(self, method: str, name: str, **more: Any) -> Any:
        # A kubectl costs more than what it asks.
        path = f"/apis/frameworkcontroller.microsoft.com/v1/namespaces/{self.namespace}/frameworks/{name}"
        answer = self.frameworks.request(method, path, **more)
        assert answer.is_success, answer.text
        return answer.json()

    def status(self, name: str) -> Any:
        return self.framework(name).get("status") or {}

    def reached(self, name: str, done: Done) -> dict[str, Any]:
        """Return the status of a Framework once it is as wanted."""
        last: dict[str, Any] = {}

        def is_so() -> bool:
            last.clear()
            last.update(self.status(name))
            return bool(done(last))

        try:
            self.until(is_so, f"framework {name}")
        except BaseException:
            print(json.dumps(last, indent=1))
            raise
        return dict(last)

    def completed(self, name: str) -> dict[str, Any]:
        return self.reached(name, lambda status: status.get("state") == "Completed")

    def jobs(self) -> list[str]:
        """Return the jobs that there were not before this test."""
        return [job.full_name for job in self.pai.all_jobs() if job.full_name not in self._earlier]


@pytest.fixture(scope="module")
def shared_world(kube_api: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    place = tmp_path_factory.mktemp("frameworks")
    server = Server.start(place / "platform", 0, "--backend", "simulated")
    made = World(kube_api, f"t-{uuid.uuid4().hex[:8]}", server, place)
    try:
        yield made
    finally:
        made.end()
        made.pai.close()
        made.frameworks.close()
        with contextlib.suppress(RuntimeError):
            patch = '{"metadata":{"finalizers":null}}'
            for name in made.kubectl("get", "frameworks", "-o", "name").split():
                made.kubectl("patch", name, "--type=merge", "-p", patch)
            made.kubectl("delete", "frameworks", "--all", "--wait=false")
            made.kubectl("delete", "namespace", made.namespace, "--wait=false")
        made.server.end(signal.SIGKILL)


@pytest.fixture
def world(shared_world: World) -> World:
    shared_world.begin()
    return shared_world
