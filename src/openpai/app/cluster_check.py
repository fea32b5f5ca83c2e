"""`pai cluster check`: whether a Kubernetes cluster can run jobs, and what would break. Creates nothing."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from openpai.app.check import Finding, report
from openpai.app.kueue_check import check_kueue
from openpai.app.setting_values import namespace_fault
from openpai.cli.options import option
from openpai.cli.output import Json
from openpai.protocol.admission import queues_in
from openpai.protocol.errors import BadConfiguration

if TYPE_CHECKING:
    from openpai.kube.client import KubeClient
    from openpai.kube.objects.nodes import Node

OLDEST: Final = (1, 29)
NEEDED: Final = (
    ("pods", "", ("get", "list", "watch", "create", "patch", "delete")),
    ("pods/log", "", ("get",)),
    ("pods/exec", "", ("create",)),
    ("secrets", "", ("create", "list", "patch", "delete")),
    ("services", "", ("create", "list", "patch", "delete")),
    ("configmaps", "", ("get", "create", "list", "patch", "update", "delete")),
    ("events", "", ("list",)),
)
"""What the server does in its namespace: resource, API group, verbs."""
NEEDED_EVERYWHERE: Final = (
    ("nodes", "", ("list", "watch")),
    ("pods", "", ("list", "watch")),
)
NEEDED_OF_NODES: Final = (("leases", "coordination.k8s.io", ("list", "watch")),)
CLAIMS: Final = (
    ("resourceclaims", "resource.k8s.io", ("create", "list", "watch", "delete")),
    ("resourceclaims/status", "resource.k8s.io", ("update", "patch")),
    ("pods/binding", "", ("create",)),
)
_SKEW_MAX_S: Final = 5.0
_NAMED_MAX: Final = 5
_NUMBER: Final = re.compile(r"\d+")

Kubeconfig = Annotated[
    Path | None,
    option("--kubeconfig", "Access to a Kubernetes cluster [default: KUBECONFIG, this pod's, or ~/.kube/config]."),
]
Context = Annotated[str | None, option("--kube-context", "Context in the kubeconfig [default: its current one].")]
Namespace = Annotated[
    str | None, option("--kube-namespace", "Namespace of the pods of tasks [default: that of the context].")
]
Queues = Annotated[
    str | None, option("--kueue-queues", "LocalQueues of Kueue that the server will use: virtual-cluster=queue,...")
]


def check(
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
    kube_namespace: Namespace = None,
    kueue_queues: Queues = None,
    json: Json = False,
) -> None:
    """Check versions, rights, nodes, GPUs, namespace, storage classes, clocks and Kueue of a Kubernetes cluster.

    It creates nothing, and exits with 1 if there is a fault. Run it with the credentials that the server will have.
    """
    queues = queues_in(kueue_queues)
    try:
        from openpai.kube.config import cluster_access
    except ModuleNotFoundError as error:
        advice = "install it with: pip install 'openpai[kubernetes]'"
        raise BadConfiguration(f"Kubernetes needs {error.name}", advice) from error
    access = cluster_access(kubeconfig, kube_context)
    namespace = kube_namespace or access.namespace
    findings = asyncio.run(_findings(access, namespace, queues))
    report(findings, {"server": access.server, "namespace": namespace}, as_json=json)


async def _findings(access: Any, namespace: str, queues: Mapping[str, str] | None = None) -> list[Finding]:
    from openpai.kube.client import KubeClient
    from openpai.kube.errors import KubeError

    async with KubeClient(access) as client:
        try:
            found = [await check_version(client, access.server)]
        except KubeError as error:
            advice = "check --kubeconfig and --kube-context, or ask `kubectl version` with them"
            return [Finding("API server", "fault", f"{access.server} cannot be used: {error.message}", advice)]
        looks: tuple[tuple[str, Callable[[], Awaitable[list[Finding]]]], ...] = (
            ("rights", lambda: _rights(client, namespace)),
            ("namespace", lambda: _namespace(client, namespace)),
            ("nodes", lambda: check_nodes(client, namespace)),
            ("storage classes", lambda: check_storage_classes(client)),
            ("pods", lambda: _pod(client, namespace)),
            ("Kueue", lambda: check_kueue(client, namespace, queues or {}, partial(_refused, client, namespace))),
        )
        for what, look in looks:
            try:
                found += await look()
            except KubeError as error:
                # The server itself does not need to read everything that is looked at here.
                is_needed = what not in ("namespace", "storage classes") or error.http != 403
                found.append(Finding(what, "fault" if is_needed else "warning", error.message, error.advice))
        return found


async def check_version(client: KubeClient, server: str) -> Finding:
    import msgspec

    answer = msgspec.json.decode(await client.raw("GET", "/version"))
    version = answer.get("gitVersion", "?")
    numbers = tuple(
        int(match[0]) if (match := _NUMBER.match(answer.get(part, ""))) else 0 for part in ("major", "minor")
    )
    if numbers < OLDEST:
        advice = f"upgrade it to {'.'.join(map(str, OLDEST))} or newer"
        return Finding("API server", "fault", f"{server} is Kubernetes {version}, which is too old", advice)
    return Finding("API server", "ok", f"{server} is Kubernetes {version}")


async def _rights(client: KubeClient, namespace: str) -> list[Finding]:
    missing = [
        text
        for needed, where in ((NEEDED, namespace), (NEEDED_EVERYWHERE, ""), (NEEDED_OF_NODES, "kube-node-lease"))
        for resource, group, verbs in needed
        for text in await _refused(client, where, resource, group, verbs)
    ]
    if missing:
        advice = "install the Helm chart, whose service account has them, or grant them"
        return [Finding("rights", "fault", f"these credentials may not {_named(missing)}", advice)]
    return [Finding("rights", "ok", f"everything the server does in {namespace} is allowed")]


async def _refused(client: KubeClient, namespace: str, resource: str, group: str, verbs: Iterable[str]) -> list[str]:
    import msgspec

    name, _, part = resource.partition("/")
    refused = []
    for verb in verbs:
        attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": name, "subresource": part}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = msgspec.json.decode(await client.raw("POST", path, body))
        if not answer["status"].get("allowed"):
            refused.append(f"{verb} {resource} in {namespace or 'every namespace'}")
    return refused


async def _namespace(client: KubeClient, namespace: str) -> list[Finding]:
    from openpai.kube.objects.kinds import NAMESPACES, kind

    if (fault := namespace_fault(namespace)) is not None:
        return [Finding("namespace", "fault", *fault)]
    found = await client.find(NAMESPACES, namespace)
    if found is not None and found.is_deleting:
        message = f"{namespace} is being deleted, so nothing can be created in it"
        advice = (
            f"wait until it is gone (kubectl describe namespace {namespace} says what keeps it), or name another one"
        )
        return [Finding("namespace", "fault", message, advice)]
    if found is None:
        advice = f"kubectl create namespace {namespace}, unless `pai cluster up` is to create it"
        return [Finding("namespace", "fault", f"{namespace} does not exist", advice)]
    labels = found.metadata.labels or {}
    level = labels.get("pod-security.kubernetes.io/enforce", "privileged")
    findings = [Finding("namespace", "ok", f"{namespace} exists, with the Pod Security level {level}")]
    if level != "privileged":
        message = f"its Pod Security level {level} refuses ports of nodes, so tasks with ports cannot start"
        advice = f"kubectl label --overwrite namespace {namespace} pod-security.kubernetes.io/enforce=privileged"
        findings = [Finding("namespace", "fault", message, advice)]
    if await client.list(kind("v1", "LimitRange", "limitranges"), namespace):
        message = f"{namespace} has a LimitRange, which may refuse tasks or change what they ask for"
        findings.append(Finding("namespace", "warning", message, "remove it: the platform limits what tasks may use"))
    return findings


async def check_nodes(client: KubeClient, namespace: str) -> list[Finding]:
    from openpai.backends.kubernetes.node_health import NodeRules, is_worker, problems
    from openpai.kube.objects.kinds import NODES

    rules = NodeRules()
    every = await client.list(NODES)
    workers = [node for node in every if is_worker(node, rules)]
    if not workers:
        if not every:
            return [Finding("nodes", "fault", "the cluster has none", "add workers")]
        message = f"none of the {len(every)} nodes takes tasks: they are of the control plane, or have taints"
        return [Finding("nodes", "fault", message, "add workers, or name taints with --tolerate")]
    findings = [Finding("nodes", "ok", f"{len(workers)} of {len(every)} may take tasks")]
    bad = [f"{node.name}: {problem}" for node in workers for problem in problems(node, rules)]
    if bad:
        findings.append(Finding("nodes", "warning", _named(bad), "they take no tasks until that is over"))
    return [*findings, *_of_kubelets(workers), *await _devices(client, namespace, workers)]


def _of_kubelets(workers: list[Node]) -> Iterator[Finding]:
    old = [
        f"{node.name} {node.status.node_info.kubelet_version}"
        for node in workers
        if _minor(node.status.node_info.kubelet_version) < OLDEST
    ]
    if old:
        yield Finding("kubelets", "fault", f"too old: {_named(old)}", "upgrade them to 1.29 or newer")


async def _devices(client: KubeClient, namespace: str, workers: list[Node]) -> list[Finding]:
    from openpai.kube.errors import KubeError
    from openpai.kube.objects.kinds import RESOURCE_SLICES

    counted: Counter[str] = Counter()
    for node in workers:
        counted.update({name: int(float(count)) for name, count in node.status.allocatable.items() if "/" in name})
    plugins = {name: count for name, count in counted.items() if count and _is_device(name)}
    try:
        slices = await client.list(RESOURCE_SLICES)
    except KubeError:
        slices = []
    drivers = Counter(part.spec.driver for part in slices for _ in part.spec.devices or ())
    findings = [Finding("GPUs", "ok", f"{count} {name} of a device plugin") for name, count in sorted(plugins.items())]
    findings += [
        Finding("GPUs", "ok", f"{count} of the driver {name}, which tasks get one by one")
        for name, count in sorted(drivers.items())
    ]
    if others := sorted(name for name, count in counted.items() if count and not _is_device(name)):
        message = f"not used as GPUs: {_named(others)}"
        findings.append(Finding("GPUs", "ok", message, "name those that are in --kube-gpus"))
    if drivers and (missing := [text for need in CLAIMS for text in await _refused(client, namespace, *need)]):
        advice = "grant them, or the devices of these drivers stay unused"
        findings.append(Finding("GPUs", "warning", f"these credentials may not {_named(missing)}", advice))
    if not plugins and not drivers:
        advice = "install the device plugin or the DRA driver of your GPUs if there are any"
        findings.append(Finding("GPUs", "warning", "no node reports one", advice))
    return findings


async def check_storage_classes(client: KubeClient) -> list[Finding]:
    from openpai.kube.objects.kinds import kind

    found = await client.list(kind("storage.k8s.io/v1", "StorageClass", "storageclasses", is_namespaced=False))
    key = "storageclass.kubernetes.io/is-default-class"
    default = [one.name for one in found if (one.metadata.annotations or {}).get(key) == "true"]
    if default:
        return [Finding("storage classes", "ok", f"{len(found)}, of which {default[0]} is the default")]
    advice = (
        "name one with storage.storageClassName, or a volume with storage.existingClaim, when you install the chart"
    )
    message = f"{len(found)}, and none of them is the default" if found else "there is none"
    return [Finding("storage classes", "warning", message, advice)]


async def _pod(client: KubeClient, namespace: str) -> list[Finding]:
    """Let the API server judge a task's pod, with all admission, without creating it."""
    from openpai.kube.errors import KubeError
    from openpai.kube.objects.kinds import PODS

    amounts = {"cpu": "1", "memory": "64Mi"}
    container = {
        "name": "task",
        "image": "busybox",
        "resources": {"requests": amounts, "limits": amounts},
        "ports": [{"containerPort": 20_000, "hostPort": 20_000}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}},
    }
    spec = {"containers": [container], "restartPolicy": "Never", "automountServiceAccountToken": False}
    began_s = time.time()
    try:
        pod = {"metadata": {"generateName": "pai-check-"}, "spec": spec}
        created = await client.create(PODS, pod, namespace, dry_run=True)
    except KubeError as error:
        if error.is_missing or "is being terminated" in error.message:
            # The finding about the namespace says so.
            return []
        message = f"the pod of a task would be refused: {error.message}"
        advice = "change the rule that refuses it, or exempt the namespace"
        if "looking up service account" in error.message:
            advice = "a new namespace gets its account in a moment; else see why kube-controller-manager does not run"
        return [Finding("pods", "fault", message, advice)]
    accepted = Finding("pods", "ok", f"the pod of a task would be accepted, in {time.time() - began_s:.2f} s")
    return [accepted, *_clock(created.metadata.creation_timestamp, began_s)]


def _clock(stamped: datetime | None, began_s: float) -> Iterator[Finding]:
    """Compare this machine's clock with that of the API server, which stamps whole seconds."""
    if stamped is None:
        return
    at_s = stamped.timestamp()
    off_s = max(began_s - at_s - 1.0, at_s - time.time(), 0.0)
    message = f"this machine and the API server differ by {off_s:.0f} s"
    if off_s > _SKEW_MAX_S:
        yield Finding("clock", "warning", message, "synchronise both, or times of jobs and events will not agree")
    else:
        yield Finding("clock", "ok", message)


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBER.findall(version)[:2])


def _is_device(resource: str) -> bool:
    from fnmatch import fnmatchcase

    from openpai.backends.kubernetes.devices import VENDORS

    return any(fnmatchcase(resource, pattern) for pattern in VENDORS)


def _named(names: list[str]) -> str:
    more = len(names) - _NAMED_MAX
    return "; ".join(names[:_NAMED_MAX]) + (f"; and {more} more" if more > 0 else "")
