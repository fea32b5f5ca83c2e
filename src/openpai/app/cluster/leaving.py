"""Waits for what is being deleted: a volume or a namespace that an earlier command removed is there for a while.

What is created in a namespace on its way out is refused, and a pod that finds a volume on its way out waits for ever.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from openpai.app.cluster.target import Target
from openpai.app.cluster.watching import LOOK_S, read_list
from openpai.cli.output import aside
from openpai.protocol.errors import Unavailable

if TYPE_CHECKING:
    from openpai.kube.client import KubeClient


async def await_gone(client: KubeClient, target: Target, timeout_s: float, jobs: str | None = None) -> None:
    """Return once nothing of a release is being deleted; say what is. Raises Unavailable, with what keeps it.

    `jobs` is the namespace of the jobs where that is known; one that the chart made is found by its labels.
    """
    began_s, shown = time.monotonic(), ""
    while found := await leaving(client, target, jobs):
        line = "; ".join(f"{what}{f': {why}' if why else ''}" for what, (why, _) in found.items())
        waited_s = time.monotonic() - began_s
        if waited_s > timeout_s:
            advice = "; ".join(dict.fromkeys(advice for _, advice in found.values()))
            raise Unavailable(f"still being deleted after {timeout_s:.0f} s: {line}", f"{advice}, and try again")
        if line != shown:
            aside(f"{waited_s:5.0f} s  waiting until it is deleted: {line}")
            shown = line
        await asyncio.sleep(LOOK_S)


async def leaving(client: KubeClient, target: Target, jobs: str | None = None) -> dict[str, tuple[str, str]]:
    """Return the volumes and namespaces of a release that are being deleted: what keeps each, and what to do."""
    found = dict[str, tuple[str, str]]()
    for claim in await read_list(
        client, f"/api/v1/namespaces/{target.namespace}/persistentvolumeclaims", labelSelector=target.selector
    ):
        if _is_leaving(claim):
            name = claim["metadata"]["name"]
            pods = [pod for pod in await read_list(client, f"/api/v1/namespaces/{target.namespace}/pods")
                    if name in _volumes(pod)]  # fmt: skip
            users = ", ".join(pod["metadata"]["name"] for pod in pods)
            advice = f"see `kubectl describe pvc {name} -n {target.namespace}`"
            found[f"volume {name}"] = (f"pod {users} uses it" if users else "", advice)
    for name, namespace in await _namespaces(client, target, {target.namespace, jobs or target.namespace}):
        conditions = namespace.get("status", {}).get("conditions") or ()
        why = "; ".join(one["message"] for one in conditions if one["status"] == "True")
        found[f"namespace {name}"] = (why, f"see `kubectl describe namespace {name}`")
    return found


async def _namespaces(client: KubeClient, target: Target, names: Collection[str]) -> list[tuple[str, Any]]:
    """Return the namespaces that are being deleted, of these names and of the release."""
    from openpai.kube.errors import KubeError

    try:
        named = {str(one["metadata"]["name"]): one for one in await read_list(client, "/api/v1/namespaces")}
    except KubeError as error:
        if error.http != 403:
            raise
        return []  # what is refused there says so itself
    own = {name for name, one in named.items() if _is_of(one["metadata"], target)}
    return [(name, named[name]) for name in sorted({*names, *own} & named.keys()) if _is_leaving(named[name])]


def _is_of(metadata: Any, target: Target) -> bool:
    """Return whether the chart made a namespace, for the jobs of this release."""
    of = (metadata.get("annotations") or {}).get("meta.helm.sh/release-namespace")
    labels = metadata.get("labels") or {}
    return of == target.namespace and labels.get("app.kubernetes.io/instance") == target.release


def _is_leaving(one: Any) -> bool:
    return "deletionTimestamp" in one["metadata"]


def _volumes(pod: Any) -> Iterator[str]:
    for volume in pod["spec"].get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            yield claim["claimName"]
