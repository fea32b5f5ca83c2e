"""FrameworkController's objects on a real API server become jobs of a real platform."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from openpai.kube.config import cluster_access
from tests.kube.framework_world import WITHIN_S, World, shared_world, world
from tests.kube.proxy import BadProxy
from tests.kube.server import why_not

__all__ = ["shared_world", "world"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not("kubectl")), reason=why_not("kubectl")),
]
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
