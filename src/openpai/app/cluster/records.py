"""What the cluster holds about a release beside its parts: Helm's records, the namespace of the jobs, and its pods."""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, Any, Final

import yaml

from openpai.app.cluster.helm import OURS, Revision
from openpai.app.cluster.target import Target
from openpai.app.cluster.watching import read_list
from openpai.protocol.errors import BadConfiguration

if TYPE_CHECKING:
    from openpai.kube.client import KubeClient

TASK: Final = "openpai/scope"
"""The label of what the server creates in the namespace of the jobs."""
INTERRUPTED: Final = "interrupted"
"""What is written of a revision that did not come to its end."""
_NO_FINALIZERS: Final = {"metadata": {"finalizers": None}}


def record_name(target: Target, revision: int) -> str:
    """Return the name of the secret in which Helm keeps a revision."""
    return f"sh.helm.release.v1.{target.release}.v{revision}"


async def chart_annotations(client: KubeClient, target: Target, revision: int) -> dict[str, str]:
    """Return the annotations of the chart of a revision."""
    from openpai.kube.objects.kinds import SECRETS

    secret = await client.find(SECRETS, record_name(target, revision), target.namespace)
    if secret is None:
        return {}
    about: dict[str, Any] = _read(secret.data["release"])["chart"]["metadata"]
    return about.get("annotations") or {}


def _read(packed: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(base64.b64decode(packed))))


def _written(record: Any) -> str:
    return base64.b64encode(base64.b64encode(gzip.compress(json.dumps(record).encode()))).decode()


async def give_up_interrupted(client: KubeClient, target: Target, revision: Revision) -> None:
    """Record a revision that was interrupted as failed, which Helm would have done, so that it takes the next one.

    Raises Refused for one that another program began, which may still be at work.
    """
    from openpai.kube.objects.kinds import SECRETS

    secret = await client.find(SECRETS, record_name(target, revision.number), target.namespace)
    if secret is None:
        return
    if OURS not in (secret.metadata.labels or {}):
        message = f"another program changes release {target.release}: revision {revision.number} is {revision.status}"
        advice = f"wait for its end; if it was interrupted: helm rollback {target.release} -n {target.namespace}"
        raise BadConfiguration(message, advice)
    record = _read(secret.data["release"])
    record["info"] |= {"status": "failed", "description": INTERRUPTED}
    same = {"resourceVersion": secret.metadata.resource_version, "labels": {"status": "failed"}}
    change = {"metadata": same, "data": {"release": _written(record)}}
    await client.patch(SECRETS, secret.name, change, target.namespace)


async def ensure_namespace(client: KubeClient, name: str) -> None:
    """Create a namespace unless it is there."""
    from openpai.kube.objects.kinds import NAMESPACES

    if await client.find(NAMESPACES, name) is None:
        await client.create(NAMESPACES, {"metadata": {"name": name, "labels": {OURS: "created"}}})


async def jobs_namespace(client: KubeClient, target: Target) -> str | None:
    """Return the namespace of the jobs of a release; None if that cannot be known any more."""
    from openpai.kube.objects.kinds import CONFIG_MAPS

    config = await client.find(CONFIG_MAPS, target.name, target.namespace)
    if config is not None:
        settings = yaml.safe_load(config.data.get("openpai.yaml", "")) or {}
        return settings.get("kube-namespace")
    for one in await read_list(client, "/api/v1/namespaces", labelSelector=target.selector):
        if (one["metadata"].get("annotations") or {}).get("meta.helm.sh/release-namespace") == target.namespace:
            return str(one["metadata"]["name"])
    return None


async def task_pods(client: KubeClient, namespace: str | None) -> list[Any]:
    """Return the pods of tasks that have not ended."""
    if namespace is None:
        return []
    pods = await read_list(client, f"/api/v1/namespaces/{namespace}/pods", labelSelector=TASK)
    return [pod for pod in pods if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")]


async def remove_tasks(client: KubeClient, namespace: str) -> int:
    """End every task and forget what the server noted in the namespace; return the number of pods."""
    from openpai.kube.errors import KubeError
    from openpai.kube.objects.kinds import CONFIG_MAPS, PODS

    pods = await read_list(client, f"/api/v1/namespaces/{namespace}/pods", labelSelector=TASK)
    for pod in pods:
        name = pod["metadata"]["name"]
        try:
            await client.patch(PODS, name, _NO_FINALIZERS, namespace)
            await client.delete(PODS, name, namespace, uid=pod["metadata"]["uid"])
        except KubeError as error:
            if not (error.is_missing or error.is_conflict):
                raise
    # Newest numbers of grants and epochs of leases: those of a restored or new database are lower and would be refused.
    for one in await read_list(client, f"/api/v1/namespaces/{namespace}/configmaps", labelSelector=TASK):
        await client.delete(CONFIG_MAPS, one["metadata"]["name"], namespace)
    return len(pods)
