"""The part of `pai cluster check` about Kueue: its API, the rights on Workloads, and the queue of each virtual cluster.

Where no virtual cluster has a queue, it looks for Workloads of jobs that are still there and hold quota.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from openpai.app.check import Finding

if TYPE_CHECKING:
    from openpai.kube.client import KubeClient
    from openpai.kube.objects.meta import Anything

NEEDED: Final = (
    ("workloads", ("list", "watch", "create", "patch", "delete")),
    ("workloads/status", ("patch",)),
)
"""What the server does with Workloads in the namespace of the tasks: resource, verbs."""
_WHAT: Final = "Kueue"
Refused = Callable[[str, str, Sequence[str]], Awaitable[list[str]]]


async def check_kueue(client: KubeClient, namespace: str, queues: Mapping[str, str], refused: Refused) -> list[Finding]:
    """Check what jobs need that queues of Kueue admit; `refused` returns what of a resource, group and verbs is."""
    from openpai.kube.objects.kueue import GROUP, VERSIONS

    served = await _served(client)
    version = next((each for each in VERSIONS if each.rpartition("/")[2] in served), None)
    if not queues:
        return await _left(client, namespace, version) if version else []
    if version is None:
        if not served:
            message = f"the cluster has none: it does not serve {GROUP}"
            return [Finding(_WHAT, "fault", message, "install Kueue, or start the server without --kueue-queues")]
        known = " and ".join(each.rpartition("/")[2] for each in VERSIONS)
        message = f"it serves {GROUP} as {', '.join(served)}, and this server knows {known}"
        return [Finding(_WHAT, "fault", message, "install a version of Kueue that serves one of these")]
    findings = [Finding(_WHAT, "ok", f"the cluster serves {version}")]
    if missing := [text for what, verbs in NEEDED for text in await refused(what, GROUP, verbs)]:
        advice = "grant it, as the Helm chart does when settings.kueue-queues is set; until then these jobs wait"
        findings.append(Finding(_WHAT, "fault", f"these credentials may not {'; '.join(missing)}", advice))
    admitted = defaultdict(list)
    for virtual_cluster, queue in queues.items():
        admitted[queue].append(virtual_cluster)
    for queue, clusters in admitted.items():
        findings.append(await _queue(client, namespace, version, queue, clusters))
    return findings


async def _served(client: KubeClient) -> list[str]:
    """Return the versions of Kueue's API that the cluster serves."""
    import msgspec

    from openpai.kube.errors import KubeError
    from openpai.kube.objects.kueue import GROUP

    try:
        answer: dict[str, Any] = msgspec.json.decode(await client.raw("GET", f"/apis/{GROUP}"))
    except KubeError as error:
        if error.is_missing:
            return []
        raise
    return [str(each.get("version")) for each in answer.get("versions") or ()]


async def _queue(
    client: KubeClient, namespace: str, version: str, queue: str, virtual_clusters: Sequence[str]
) -> Finding:
    from openpai.kube.errors import KubeError
    from openpai.kube.objects.kinds import kind

    queues = kind(version, "LocalQueue", "localqueues")
    jobs = f"{queue}, for jobs of {', '.join(virtual_clusters)}"
    try:
        found = await client.find(queues, queue, namespace)
        others = [] if found else sorted(each.name for each in await client.list(queues, namespace))
    except KubeError as error:
        advice = f"kubectl get localqueue {queue} -n {namespace} with credentials that may read it"
        return Finding(_WHAT, "warning", f"the LocalQueue {jobs}, cannot be looked for: {error.message}", advice)
    if found is None:
        message = f"the LocalQueue {jobs}, does not exist in {namespace}"
        there = f", which has {', '.join(others)}" if others else ""
        return Finding(_WHAT, "fault", message, f"create it, or name another one of {namespace}{there}")
    if (active := _active(found)) is None:
        advice = "see whether Kueue's controller manager runs; these jobs wait until it does"
        return Finding(_WHAT, "warning", f"Kueue has said nothing yet about the LocalQueue {jobs}", advice)
    if active.get("status") != "True":
        message = f"the LocalQueue {jobs}, admits nothing now: {active.get('message') or active.get('reason')}"
        advice = f"see its ClusterQueue {found.spec.get('clusterQueue', '')}; these jobs wait until it is active"
        return Finding(_WHAT, "fault", message, advice)
    return Finding(_WHAT, "ok", f"the LocalQueue {jobs}, is active")


def _active(queue: Anything) -> Mapping[str, Any] | None:
    conditions = queue.status.get("conditions") or ()
    return next((each for each in conditions if each.get("type") == "Active"), None)


async def _left(client: KubeClient, namespace: str, version: str) -> list[Finding]:
    """Look for Workloads of jobs, which may be those of a server that still has queues."""
    from openpai.backends.kubernetes.admission import LABEL
    from openpai.kube.errors import KubeError
    from openpai.kube.objects.kueue import WORKLOADS

    try:
        left = await client.list(WORKLOADS.at(version), namespace, labels=LABEL)
    except KubeError:
        return []
    if not left:
        return []
    what = "1 Workload of jobs is" if len(left) == 1 else f"{len(left)} Workloads of jobs are"
    message = f"{what} in {namespace} and may hold the quota of a queue"
    advice = (
        "name the server's queues with --kueue-queues; if no server has any, "
        f"kubectl delete workloads.kueue.x-k8s.io -n {namespace} -l {LABEL}"
    )
    return [Finding(_WHAT, "warning", message, advice)]
