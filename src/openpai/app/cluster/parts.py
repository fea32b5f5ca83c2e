"""The parts of a release as they are: what is ready, what is wrong, and what to do about it.

Pure: from objects as the API server returns them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Object = Mapping[str, Any]
_IMAGE: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull",
                           "RegistryUnavailable", "ImageInspectError"})  # fmt: skip
_IMAGE_ADVICE: Final = (
    "check the name with --set image.repository=...,image.tag=..., give credentials with image.pullSecrets; without "
    "a network, `pai cluster up --bundle FILE`"
)


@dataclass(frozen=True)
class Problem:
    """What keeps a part from being ready."""

    what: str
    message: str
    advice: str = ""


@dataclass
class Snapshot:
    """The objects of a release at one moment."""

    deployments: list[Object] = field(default_factory=list)
    sets: list[Object] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    claims: list[Object] = field(default_factory=list)
    events: list[Object] = field(default_factory=list)

    @property
    def workloads(self) -> list[Object]:
        """Return what keeps pods running."""
        return [*self.deployments, *self.sets]

    @property
    def is_ready(self) -> bool:
        """Return whether every pod that there is to be runs, in its newest form."""
        return bool(self.deployments) and all(_is_ready(one) for one in self.workloads)


def name_of(one: Object) -> str:
    """Return the name of an object."""
    return str(one["metadata"]["name"])


def wanted(workload: Object) -> int:
    """Return how many pods a workload is to have."""
    return int(workload["spec"].get("replicas", 1))


def ready(workload: Object) -> int:
    """Return how many of its pods are ready."""
    return int(workload.get("status", {}).get("readyReplicas", 0))


def _is_ready(workload: Object) -> bool:
    status, count = workload.get("status", {}), wanted(workload)
    is_seen = status.get("observedGeneration", 0) >= workload["metadata"].get("generation", 0)
    is_alone = status.get("replicas", 0) == count
    return is_seen and is_alone and status.get("updatedReplicas", 0) >= count and ready(workload) >= count


def pod_state(pod: Object) -> str:
    """Return what a pod does, in a few words."""
    status = pod.get("status", {})
    if pod["metadata"].get("deletionTimestamp"):
        return "ends"
    for one in status.get("containerStatuses", ()):
        waiting = one.get("state", {}).get("waiting")
        if waiting:
            reason = str(waiting.get("reason", "waits"))
            return {"ContainerCreating": "starts", "PodInitializing": "starts"}.get(reason, reason)
        if one.get("ready"):
            return f"ready on {pod['spec'].get('nodeName', '?')}"
        if "running" in one.get("state", {}):
            return "runs, and is not ready yet"
    if not pod["spec"].get("nodeName"):
        return "waits for a node"
    return str(status.get("phase", "Pending"))


def problems(found: Snapshot) -> list[Problem]:
    """Return everything that is wrong, the cause before what follows from it."""
    listed = [*_of_claims(found), *_of_workloads(found)]
    for pod in found.pods:
        if not pod["metadata"].get("deletionTimestamp"):
            listed += _of_pod(pod, found.events)
    return list(dict.fromkeys(listed))


def _of_claims(found: Snapshot) -> Iterator[Problem]:
    for claim in found.claims:
        if claim.get("status", {}).get("phase") != "Bound":
            event = _newest_event(found.events, "PersistentVolumeClaim", name_of(claim))
            # A class may wait for the pod that uses the volume.
            if "WaitForFirstConsumer" in event or "waiting for first consumer" in event:
                continue
            name = claim["spec"].get("storageClassName")
            message = (
                f"has no volume{f' of storage class {name}' if name else ', and there is no default storage class'}"
            )
            advice = "choose one with --set storage.storageClassName=NAME, or a volume with storage.existingClaim"
            if name and claim.get("status", {}).get("phase") == "Pending":
                # A claim keeps its class, also while it has no volume.
                where = claim["metadata"].get("namespace", "")
                remove = f"kubectl -n {where} delete persistentvolumeclaim {name_of(claim)}"
                advice = f"create that class, or remove the claim, which holds nothing ({remove}), and {advice}"
            yield Problem(f"volume {name_of(claim)}", f"{message}{f': {event}' if event else ''}", advice)


def _of_workloads(found: Snapshot) -> Iterator[Problem]:
    for one in found.workloads:
        for condition in one.get("status", {}).get("conditions", ()):
            if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
                advice = "change the rule or the quota of the namespace that refuses them"
                yield Problem(f"pods of {name_of(one)}", f"are refused: {condition.get('message', '')}", advice)


def _of_pod(pod: Object, events: Sequence[Object]) -> Iterator[Problem]:
    what, status = f"pod {name_of(pod)}", pod.get("status", {})
    for condition in status.get("conditions", ()):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            advice = "free or add such a node, or lower resources.requests; server.tolerations lets it use tainted ones"
            yield Problem(what, f"no node takes it: {condition.get('message', '')}", advice)
    for one in status.get("containerStatuses", ()):
        yield from _of_container(what, one)
    if not any(one.get("ready") for one in status.get("containerStatuses", ())):
        event = _newest_event(
            events, "Pod", name_of(pod), ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox")
        )
        if event:
            yield Problem(what, event, "check the volume and its storage class, and the network of the node")


def _of_container(what: str, status: Object) -> Iterator[Problem]:
    waiting = status.get("state", {}).get("waiting") or {}
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    ended = status.get("lastState", {}).get("terminated") or status.get("state", {}).get("terminated")
    if reason in _IMAGE:
        yield Problem(what, f"the image {status.get('image', '')} cannot be had: {message or reason}", _IMAGE_ADVICE)
    elif reason in ("CreateContainerConfigError", "CreateContainerError", "RunContainerError"):
        yield Problem(what, f"cannot start: {message or reason}", "create what it names")
    elif ended and not status.get("ready"):
        why = f", {ended['reason']}" if ended.get("reason") not in (None, "Error", "Completed") else ""
        times = status.get("restartCount", 0)
        problem = f"its program ended with exit code {ended.get('exitCode')}{why}, and was restarted {times} times"
        yield Problem(what, problem, f"its log says why: kubectl logs {what.removeprefix('pod ')} --previous")


def _newest_event(events: Sequence[Object], kind: str, name: str, reasons: Sequence[str] = ()) -> str:
    message = ""
    for event in events:
        about = event.get("involvedObject", {})
        if (about.get("kind"), about.get("name")) == (kind, name) and (not reasons or event.get("reason") in reasons):
            message = str(event.get("message", ""))
    return message
