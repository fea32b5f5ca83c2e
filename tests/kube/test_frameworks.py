"""FrameworkController's objects on a real API server become jobs of a real platform."""

from __future__ import annotations

import asyncio
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
from tests.kube.proxy import BadProxy
from tests.kube.server import ASSETS, why_not
from tests.pauses import Pauses

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not("kubectl")), reason=why_not("kubectl")),
]
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


REPLACED = '[{"op": "replace", "path": "/spec/taskRoles/0/taskNumber", "value": %d}]'


def role(name: str, *command: str, tasks: int = 1, failed: int = 1, succeeded: int = -1, **pod: Any) -> dict[str, Any]:
    """Return a task role in FrameworkController's words."""
    container = {"name": "main", "image": "ubuntu:24.04", "command": list(command), **pod.pop("container", {})}
    return {
        "name": name,
        "taskNumber": tasks,
        "frameworkAttemptCompletionPolicy": {"minFailedTaskCount": failed, "minSucceededTaskCount": succeeded},
        "task": {
            "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0},
            "podGracefulDeletionTimeoutSec": 600,
            "pod": {"spec": {"restartPolicy": "Never", "containers": [container], **pod}},
        },
    }


def code(status: dict[str, Any]) -> int:
    found: int = status["attemptStatus"]["completionStatus"]["code"]
    return found


def condition(status: dict[str, Any], type_: str) -> tuple[str, str] | None:
    """Return status and reason of a condition."""
    found = [(str(one["status"]), str(one["reason"])) for one in status.get("conditions", ()) if one["type"] == type_]
    return found[0] if found else None


def counts(status: dict[str, Any]) -> dict[str, int]:
    """Return the number of tasks of the first role by state."""
    return dict(status["attemptStatus"]["taskRoleStatuses"][0]["taskCounts"])


def accepted(status: dict[str, Any], value: str) -> str:
    """Return the message of condition Accepted if it has this value."""
    found = [one for one in status.get("conditions", ()) if (one["type"], one["status"]) == ("Accepted", value)]
    return str(found[0]["message"]) if found else ""


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


def test_frameworks_run_end_and_report_in_frameworkcontrollers_shape(world: World) -> None:
    world.apply("batch", role("server", "sleep", "infinity", tasks=2), role("worker", "true", tasks=3, succeeded=3))
    status = world.completed("batch")
    attempt = status["attemptStatus"]
    assert attempt["completionStatus"]["code"] == 0
    assert attempt["completionStatus"]["type"] == {"name": "Succeeded", "attributes": []}
    assert attempt["completionStatus"]["trigger"]["taskRoleName"] == "worker"
    roles = {one["name"]: one for one in attempt["taskRoleStatuses"]}
    assert (roles["server"]["taskCounts"], roles["worker"]["taskCounts"]) == ({"Completed": 2}, {"Completed": 3})
    assert roles["worker"]["taskStatuses"][2]["attemptStatus"]["podName"] == "batch-worker-2"
    assert status["startTime"] <= status["completionTime"]
    assert accepted(status, "True").endswith(status["job"])
    assert status["job"].startswith("ann~batch-")

    world.apply("wrong", role("worker", "exit", "3"), retryPolicy={"fancyRetryPolicy": True, "maxRetryCount": 1})
    failed = world.completed("wrong")
    assert (code(failed), failed["retryPolicyStatus"]["totalRetriedCount"]) == (3, 1)
    assert failed["attemptStatus"]["completionStatus"]["type"]["name"] == "Failed"

    before = world.framework("batch")["metadata"]["resourceVersion"]
    world.end()
    world.start()
    world.apply("later", role("worker", "true"))
    world.completed("later")
    assert len(world.jobs()) == 3
    assert world.framework("batch")["metadata"]["resourceVersion"] == before


def test_create_start_stop_rescale_and_delete(world: World) -> None:
    long = role("worker", "sleep", "infinity", tasks=2)
    world.apply("long", long, executionType="Create")
    world.reached("long", lambda status: status.get("state") == "AttemptCreationPending")
    assert world.jobs() == []
    world.apply("long", long)
    world.reached("long", lambda status: status["state"] == "AttemptRunning")
    version = world.framework("long")["metadata"]["resourceVersion"]

    world.kubectl("patch", "framework", "long", "--type=json", "-p", REPLACED % 5)
    rescaled = world.reached("long", lambda status: counts(status) == {"AttemptRunning": 5})
    assert world.framework("long")["metadata"]["resourceVersion"] != version
    first = rescaled["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][0]["startTime"]
    world.apply("long", {**long, "taskNumber": 1})
    world.reached("long", lambda status: counts(status) == {"AttemptRunning": 1})
    world.apply("long", {**long, "taskNumber": 3})
    rescaled = world.reached("long", lambda status: condition(status, "Rescaled") == ("True", "Done"))
    rescaled = world.reached("long", lambda status: counts(status) == {"AttemptRunning": 3})
    tasks = rescaled["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"]
    assert [(one["index"], one["attemptStatus"]["id"], one["deletionPending"]) for one in tasks] == [
        (0, 0, False), (1, 1, False), (2, 1, False),
    ]  # fmt: skip
    assert (rescaled["attemptStatus"]["id"], tasks[0]["startTime"]) == (0, first)
    world.apply("long", {**long, "taskNumber": 9_000})
    world.reached("long", lambda status: condition(status, "Rescaled") == ("False", "Refused"))
    world.apply("long", long, role("other", "true"))
    world.reached("long", lambda status: condition(status, "Rescaled") == ("False", "NotSupported"))

    world.apply("long", long, executionType="Stop")
    stopped = world.completed("long")
    assert (code(stopped), stopped["attemptStatus"]["completionStatus"]["phrase"]) == (-210, "StopFrameworkRequested")
    world.apply("never", long, executionType="Stop")
    assert code(world.completed("never")) == -210

    world.apply("doomed", long)
    doomed = world.reached("doomed", lambda status: status.get("state") == "AttemptRunning")["job"]
    world.kubectl("delete", "framework", "doomed", "--timeout=60s")
    assert world.pai.job(doomed).state == "STOPPED"
    world.apply("doomed", long)
    again = world.reached("doomed", lambda status: status.get("state") == "AttemptRunning")["job"]
    assert again != doomed


def test_what_cannot_be_honoured_or_is_not_allowed_is_refused_with_one_message(world: World) -> None:
    odd = role("worker", "true", initContainers=[{"name": "wait", "image": "busybox"}], volumes=[{"name": "v"}])
    odd["task"]["retryPolicy"]["maxRetryCount"] = -2
    world.apply("odd", odd)
    message = accepted(world.reached("odd", lambda status: accepted(status, "False")), "False")
    assert "spec.taskRoles[0].task.pod.spec.initContainers is not supported" in message
    assert "pod.spec.volumes is not supported" in message
    assert "maxRetryCount is -2" in message
    world.apply("bob", role("worker", "true"), annotations={"openpai/user": "bob"})
    refused = accepted(world.reached("bob", lambda status: accepted(status, "False")), "False")
    assert "user 'bob' is not allowed in namespace" in refused
    world.apply("vc", role("worker", "true"), annotations={"openpai/virtual-cluster": "secret"})
    refused = accepted(world.reached("vc", lambda status: accepted(status, "False")), "False")
    assert "virtual cluster 'secret' is not allowed" in refused
    assert world.jobs() == []
    world.apply("vc", role("worker", "true"), annotations={"openpai/virtual-cluster": "default"})
    world.completed("vc")

    world.apply("kept", role("worker", "sleep", "infinity"))
    job = world.reached("kept", lambda status: status.get("state") == "AttemptRunning")["job"]
    world.end()
    world.configure({"bob": "bob.token"})
    world.start()
    refused = accepted(world.reached("kept", lambda status: accepted(status, "False")), "False")
    assert "its job is of user ann, who is not allowed" in refused
    world.kubectl("delete", "framework", "kept", "--wait=false")
    world.apply("next", role("worker", "true"))
    assert world.completed("next")["job"].startswith("bob~")
    assert world.pai.job(job).state == "RUNNING"
    assert "openpai/stop-job" in world.framework("kept")["metadata"]["finalizers"]

    world.end()
    world.configure({"ann": "bob.token"})
    world.start()
    world.apply("forged", role("worker", "true"))
    refused = accepted(world.reached("forged", lambda status: accepted(status, "False")), "False")
    assert "the token for user ann belongs to bob" in refused


@pytest.mark.full
def test_nothing_is_lost_or_done_twice_when_a_part_is_away(world: World) -> None:
    world.server.end(signal.SIGKILL)
    world.apply("waits", role("worker", "true"))
    world.reached("waits", lambda status: accepted(status, "Unknown"))
    world.end(signal.SIGKILL)
    world.server = world.server.again()
    world.start()
    world.completed("waits")

    names = [f"many{number}" for number in range(8)]
    for name in names:
        world.apply(name, role("worker", "sleep", "infinity"))
    world.reached("many0", lambda status: status.get("state"))
    world.end(signal.SIGKILL)
    world.kubectl("delete", "framework", "many7", "--wait=false")
    world.start()
    for name in names[:7]:
        world.reached(name, lambda status: status.get("state") == "AttemptRunning")
    world.until(lambda: "many7" not in world.kubectl("get", "frameworks", "-o", "name"), "many7 is not gone")
    running = [job.name.partition("-")[0] for job in world.pai.all_jobs(state="RUNNING")]
    assert sorted(name for name in running if name.startswith("many")) == names[:7]

    job = world.status("many0")["job"]
    world.pai.stop(job)
    world.completed("many0")
    world.end()
    world.pai.delete(job)
    running_job = world.status("many1")["job"]
    world.pai.stop(running_job)
    world.pai.wait(running_job, 60)
    world.pai.delete(running_job)
    world.start()
    assert code(world.completed("many1")) == -100
    world.apply("last", role("worker", "true"))
    world.completed("last")
    assert not [name for name in world.jobs() if name.startswith(("ann~many0-", "ann~many1-"))]


@pytest.mark.full
async def test_what_happens_while_the_api_server_is_away_is_made_up_for(world: World, tmp_path: Path) -> None:
    do = asyncio.to_thread
    await do(world.end)
    async with BadProxy(cluster_access(world.kubeconfig)) as proxy:
        through = tmp_path / "proxy.conf"
        through.write_text(json.dumps(kubeconfig_of(f"http://127.0.0.1:{proxy.port}")))
        await do(world.start, through)
        jobs = {}
        for name in ("ends", "deleted", "stopped"):
            await do(world.apply, name, role("worker", "sleep", "infinity"))
            jobs[name] = (await do(world.reached, name, lambda status: status.get("state") == "AttemptRunning"))["job"]

        proxy.refused = (1_000_000, 503, "")
        proxy.reset()
        await do(world.apply, "meanwhile", role("worker", "true"))
        await do(world.apply, "stopped", role("worker", "sleep", "infinity"), executionType="Stop")
        await do(world.kubectl, "delete", "framework", "deleted", "--wait=false")
        await do(world.pai.stop, jobs["ends"])
        await do(world.pai.wait, jobs["ends"], WITHIN_S)
        assert (await do(world.status, "ends"))["state"] == "AttemptRunning"
        assert len(await do(world.jobs)) == 3

        proxy.refused = (0, 503, "")
        assert code(await do(world.completed, "meanwhile")) == 0
        assert code(await do(world.completed, "stopped")) == -210
        assert code(await do(world.completed, "ends")) == -210
        await do(world.kubectl, "wait", "--for=delete", "framework/deleted", "--timeout=60s")
        assert (await do(world.pai.job, jobs["deleted"])).state == "STOPPED"
        assert len(await do(world.jobs)) == 4
        await do(world.end)


def kubeconfig_of(url: str) -> dict[str, Any]:
    """Return a kubeconfig without credentials."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "proxy", "cluster": {"server": url}}],
        "users": [{"name": "none", "user": {}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "none"}}],
        "current-context": "proxy",
    }
