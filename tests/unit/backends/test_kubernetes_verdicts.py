"""States of pods, as kubelets and controllers write them, become exit reports with the rows of the exit-code table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openpai.backends.kubernetes.cached_pods import PodKeeper
from openpai.backends.kubernetes.refusals import refusal_of
from openpai.backends.kubernetes.starting import IMAGE_PATIENCE_S, PATIENCE_S, progress
from openpai.backends.kubernetes.verdicts import started_at_ms, verdict
from openpai.kube.errors import error_of
from openpai.kube.objects.kinds import EVENTS, PODS
from openpai.kube.objects.pods import Pod
from openpai.kube.objects.rest import Event
from openpai.lifecycle.diagnosis import diagnose
from openpai.lifecycle.model import ExitReason

BEGAN, ENDED = "2026-11-22T10:00:00Z", "2026-11-22T10:01:00Z"
LATER = "2026-11-22T10:02:00Z"


def a_pod(
    phase: str, state: dict[str, Any] | None = None, *, metadata: dict[str, Any] | None = None, **status: Any
) -> Pod:
    containers = [{"name": "task", "state": state}] if state is not None else []
    body = {
        "metadata": {
            "name": "p", "namespace": "jobs", "uid": "u", "labels": {"openpai/scope": "ours"}, **(metadata or {})
        },
        "spec": {"nodeName": "n1"},
        "status": {"phase": phase, "containerStatuses": containers, **status},
    }  # fmt: skip
    # As it is kept in memory: nothing that decides how a task ended may get lost there.
    return PodKeeper("jobs", "ours").kept(PODS.decoder.decode(json.dumps(body).encode()))


def ended(code: int, reason: str = "Error", message: str = "", **more: Any) -> dict[str, Any]:
    return {
        "terminated": {
            "exitCode": code, "reason": reason, "message": message, "startedAt": BEGAN, "finishedAt": ENDED, **more
        }
    }  # fmt: skip


def target(reason: str, message: str = "") -> list[dict[str, str]]:
    return [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}]


FULL_DISK = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "
FULL_SHM = 'Usage of EmptyDir volume "pai-shm" exceeds the limit "64Mi". '
NO_SHELL = 'exec: "/bin/sh": stat /bin/sh: no such file or directory'
NEVER = {"startedAt": None, "finishedAt": "1970-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("pod", "reason", "code", "row"),
    [
        (a_pod("Succeeded", ended(0, "Completed")), ExitReason.EXITED, 0, 0),
        (a_pod("Failed", ended(137, "OOMKilled")), ExitReason.OOM_KILLED, 137, -1200),
        # One process of many may be killed for memory and the task may go on.
        (a_pod("Succeeded", ended(0, "OOMKilled")), ExitReason.EXITED, 0, 0),
        (a_pod("Failed", reason="OutOfcpu", message="Node didn't have"), ExitReason.OUT_OF_RESOURCES, 1, -1002),
        (a_pod("Failed", reason="OutOfnvidia.com/gpu"), ExitReason.OUT_OF_RESOURCES, 1, -1002),
        (a_pod("Failed", reason="OutOfpods"), ExitReason.OUT_OF_RESOURCES, 1, -1002),
        (a_pod("Failed", reason="UnexpectedAdmissionError"), ExitReason.NODE_FAILED, 1, -1006),
        (a_pod("Failed", reason="SysctlForbidden"), ExitReason.NODE_FORBIDS, 1, -1005),
        (a_pod("Failed", reason="NodePorts"), ExitReason.PORT_TAKEN, 1, 253),
        (a_pod("Failed", reason="DeadlineExceeded"), ExitReason.DEADLINE_EXCEEDED, 1, -1004),
        (a_pod("Failed", ended(137), reason="Evicted", message="low on memory"), ExitReason.EVICTED, 137, -1000),
        (
            a_pod("Failed", ended(137), reason="Evicted", message=FULL_DISK),
            ExitReason.DISK_EXCEEDED, 137, -1206,
        ),
        (
            a_pod("Failed", ended(137), reason="Evicted", message=FULL_SHM),
            ExitReason.OOM_KILLED, 137, -1200,
        ),
        (a_pod("Failed", ended(143), conditions=target("EvictionByEvictionAPI")), ExitReason.EVICTED, 143, -1000),
        (a_pod("Failed", ended(143), conditions=target("PreemptionByScheduler")), ExitReason.DISPLACED, 143, -1003),
        (a_pod("Failed", None, conditions=target("DeletionByPodGC")), ExitReason.NODE_LOST, 1, -1001),
        (a_pod("Failed", {"running": {"startedAt": BEGAN}}, reason="NodeLost"), ExitReason.NODE_LOST, 1, -1001),
        (a_pod("Failed", ended(143), reason="Terminated", message="node shutdown"), ExitReason.NODE_LOST, 143, -1001),
        (
            a_pod("Failed", ended(128, "StartError", NO_SHELL, **NEVER)),
            ExitReason.NO_SHELL, 128, -1203,
        ),
        (a_pod("Failed", ended(128, "StartError", "error mounting", **NEVER)), ExitReason.START_FAILED, 128, -1204),
        (
            a_pod("Failed", ended(128, "StartError", "exec /bin/sh: exec format error", **NEVER)),
            ExitReason.LAUNCH_REFUSED, 128, -200,
        ),
        (
            a_pod("Failed", ended(253, message="code 253\nreason port_taken\nmessage port 15000 is used\nend\n")),
            ExitReason.PORT_TAKEN, 253, 253,
        ),
        # A task can write there, too, but not whatever it likes.
        (a_pod("Failed", ended(1, message="code 1\nreason port_taken\nmessage x\nend\n")), ExitReason.EXITED, 1, 255),
        (a_pod("Failed", ended(253, message="code 253\nreason lost\nmessage x\nend\n")), ExitReason.EXITED, 253, 255),
        (a_pod("Failed", ended(137, "ContainerStatusUnknown", **NEVER)), ExitReason.LOST, 137, -101),
        (a_pod("Failed", None, message="something new"), ExitReason.LAUNCH_FAILED, 1, -120),
    ],
)  # fmt: skip
def test_an_ended_pod_leads_to_a_row(pod: Pod, reason: ExitReason, code: int, row: int) -> None:
    report = verdict(pod, was_killed=False)
    assert report is not None
    assert (report.reason, report.code, diagnose(report).code) == (reason, code, row)


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        ({"conditions": target("EvictionByEvictionAPI", "Eviction API: evicting")}, "node_drained"),
        (
            {"conditions": target("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")},
            "node_drained",
        ),
        (
            {"reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."},
            "node_drained",
        ),
        (
            {"reason": "Evicted", "message": "The node was low on resource: memory. Container task was using 9Gi."},
            "preempted_or_evicted",
        ),
    ],
)
def test_a_drained_node_is_not_said_to_be_short_of_memory(status: dict[str, Any], cause: str) -> None:
    report = verdict(a_pod("Failed", ended(143), **status), was_killed=False)
    assert report is not None
    assert diagnose(report).cause == cause
    assert ("memory" in diagnose(report).reason) is (cause != "node_drained")


def test_the_time_of_an_end_is_the_containers() -> None:
    report = verdict(a_pod("Failed", ended(3)), was_killed=False)
    assert report is not None
    assert (report.started_at_ms, report.ended_at_ms) == (1795341600000, 1795341660000)


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("Pending"),
        a_pod("Running", {"running": {"startedAt": BEGAN}}),
        # The node may restart nothing, but until the phase is final a process may still end.
        a_pod("Running", ended(0, "Completed")),
        a_pod("Running", {"running": {"startedAt": BEGAN}}, metadata={"deletionTimestamp": ENDED}),
        a_pod("Unknown", {"running": {"startedAt": BEGAN}}, reason="NodeLost"),
    ],
)
def test_what_may_still_run_has_not_ended(pod: Pod) -> None:
    assert verdict(pod, was_killed=True) is None


def deleted(at: str, grace_s: int) -> dict[str, Any]:
    return {"deletionTimestamp": at, "deletionGracePeriodSeconds": grace_s}


@pytest.mark.parametrize(
    ("code", "metadata", "reason"),
    [
        (143, deleted(ENDED, 30), ExitReason.LOST),
        # A program may end well on SIGTERM with its work undone.
        (0, deleted(ENDED, 30), ExitReason.LOST),
        (0, deleted(LATER, 30), ExitReason.EXITED),
        (1, deleted(LATER, 30), ExitReason.EXITED),
        (0, deleted(ENDED, 0), ExitReason.EXITED),
        (1, deleted(ENDED, 0), ExitReason.LOST),
        # The node confirmed the deletion a minute after the end, and so wrote over the time of the request.
        (143, deleted(LATER, 0), ExitReason.LOST),
        (137, deleted(LATER, 0), ExitReason.LOST),
        (1, deleted(LATER, 0), ExitReason.EXITED),
    ],
)
def test_a_task_is_lost_if_its_pod_is_deleted_by_hand_before_its_end(
    code: int, metadata: dict[str, Any], reason: ExitReason
) -> None:
    pod = a_pod("Failed" if code else "Succeeded", ended(code), metadata=metadata)
    report = verdict(pod, was_killed=False)
    assert report is not None
    assert (report.code, report.reason) == (code, reason)
    killed = verdict(pod, was_killed=True)
    assert killed is not None
    assert (killed.code, killed.reason) == (code, ExitReason.EXITED)


def test_a_task_that_was_seen_to_run_after_its_pod_was_deleted_did_not_end_by_itself() -> None:
    # Within the second of the deletion, its times alone do not show that.
    pod = a_pod("Succeeded", ended(0, "Completed"), metadata=deleted(ENDED, 0))
    report = verdict(pod, was_killed=False, was_cut_short=True)
    assert report is not None
    assert report.reason is ExitReason.LOST


@pytest.mark.parametrize("state", [None, ended(137, "ContainerStatusUnknown", **NEVER)])
def test_a_pod_that_was_deleted_before_it_ran(state: dict[str, Any] | None) -> None:
    pod = a_pod("Failed", state, metadata=deleted(ENDED, 30))
    killed, lost = verdict(pod, was_killed=True), verdict(pod, was_killed=False)
    assert killed is not None
    assert (killed.code, killed.reason, killed.started_at_ms) == (143, ExitReason.EXITED, None)
    assert lost is not None
    assert (lost.reason, started_at_ms(pod)) == (ExitReason.LOST, None)


def waiting(reason: str, message: str = "") -> Pod:
    return a_pod("Pending", {"waiting": {"reason": reason, "message": message}})


NOT_FOUND = (
    'Back-off pulling image "x": ErrImagePull: failed to pull and unpack image "docker.io/library/x:latest": not found'
)
SILENT = (
    'failed to pull and unpack image "docker.io/library/forbidden:1": failed to resolve reference '
    '"docker.io/library/forbidden:1": failed to do request: Head "https://registry-1.docker.io/v2/library/forbidden/'
    'manifests/1": dial tcp: lookup registry-1.docker.io: no such host'
)
BUSY = "failed to do request: Head: dial tcp: i/o timeout"


@pytest.mark.parametrize(
    ("pod", "after_s", "reason"),
    [
        (waiting("InvalidImageName", "couldn't parse image"), 0.0, ExitReason.IMAGE_MISSING),
        (waiting("ImagePullBackOff", NOT_FOUND), 0.0, ExitReason.IMAGE_MISSING),
        (waiting("ErrImagePull", "pull access denied, repository does not exist"), 0.0, ExitReason.IMAGE_MISSING),
        (waiting("ErrImagePull", BUSY), IMAGE_PATIENCE_S, ExitReason.LAUNCH_FAILED),
        (waiting("ErrImagePull", SILENT), IMAGE_PATIENCE_S, ExitReason.LAUNCH_FAILED),
        (waiting("ErrImagePull", f"{SILENT[:85]}: 403 Forbidden"), 0.0, ExitReason.IMAGE_MISSING),
        (waiting("CreateContainerConfigError", "secret not found"), PATIENCE_S, ExitReason.CREATION_FAILED),
        (waiting("RunContainerError", "oops"), PATIENCE_S, ExitReason.START_FAILED),
    ],
)
def test_what_does_not_start_is_given_up_in_time(pod: Pod, after_s: float, reason: ExitReason) -> None:
    if after_s:
        early = progress(pod, after_s)
        assert early.exit is None
        assert early.step.endswith("Failed")
    late = progress(pod, after_s + 0.1)
    assert late.exit is not None
    assert late.exit.reason is reason


def an_event(reason: str, message: str) -> Event:
    return EVENTS.decoder.decode(json.dumps({"metadata": {"name": "e"}, "reason": reason, "message": message}).encode())


def test_events_explain_what_the_status_does_not() -> None:
    pod = waiting("ContainerCreating")
    pulling = progress(pod, 1.0, an_event("Pulling", 'Pulling image "x"'))
    assert (pulling.message, pulling.step, pulling.exit) == ('Pulling image "x"', "PullingImage", None)
    mount = an_event("FailedMount", "MountVolume.SetUp failed for volume: not ready yet")
    assert progress(pod, 1.0, mount).step == "ContainerCreationFailed"
    late = progress(pod, PATIENCE_S + 1, mount).exit
    assert late is not None
    assert late.reason is ExitReason.LAUNCH_FAILED
    missing = an_event("FailedMount", "hostPath type check failed: /srv/data is not a directory")
    gone = progress(pod, 1.0, missing).exit
    assert gone is not None
    assert "there is no directory /srv/data" in gone.message


def test_kube_scheduler_says_why_it_places_nothing() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    body = {"metadata": {"name": "p"}, "spec": {}, "status": {"phase": "Pending", "conditions": [condition]}}
    pod = PODS.decoder.decode(json.dumps(body).encode())
    assert "0/3 nodes" in progress(pod, 1.0).message
    late = progress(pod, PATIENCE_S + 1).exit
    assert late is not None
    assert late.reason is ExitReason.OUT_OF_RESOURCES


@pytest.mark.parametrize(
    ("http", "output", "reason"),
    [
        (422, "Pod is invalid: spec.containers[0].image: Required value", ExitReason.LAUNCH_REFUSED),
        (413, "Request entity too large", ExitReason.LAUNCH_REFUSED),
        (403, 'pods "p" is forbidden: violates PodSecurity "restricted:latest"', ExitReason.LAUNCH_REFUSED),
        (400, 'admission webhook "policy" denied the request: no', ExitReason.LAUNCH_REFUSED),
        (403, 'User "x" cannot create resource "pods"', ExitReason.LAUNCH_FAILED),
        (404, 'namespaces "jobs" not found', ExitReason.LAUNCH_FAILED),
        (
            403,
            "unable to create new content in namespace jobs because it is being terminated",
            ExitReason.LAUNCH_FAILED,
        ),
    ],
)
def test_a_refused_pod_ends_for_good_only_if_the_pod_is_at_fault(http: int, output: str, reason: ExitReason) -> None:
    error = error_of("create pods", http, json.dumps({"message": output}).encode())
    refusal = refusal_of(error, 0.0)
    assert refusal.exit is not None
    assert refusal.exit.reason is reason
    assert output in refusal.exit.message


@pytest.mark.parametrize(
    "output",
    ["exceeded quota: small, requested: pods=1", "status unknown for quota: small, resources: pods"],
)
def test_a_full_quota_is_waited_for(output: str) -> None:
    error = error_of("create pods", 403, json.dumps({"message": output}).encode())
    assert (refusal_of(error, 0.0).exit, refusal_of(error, 0.0).step) == (None, "QuotaExceeded")
    late = refusal_of(error, 1000.0).exit
    assert late is not None
    assert late.reason is ExitReason.LAUNCH_FAILED
