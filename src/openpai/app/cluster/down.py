"""`pai cluster down`: remove the platform from a cluster; its data stay unless their deletion is asked for."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openpai.app.cluster.helm import OURS, Helm
from openpai.app.cluster.leaving import await_gone
from openpai.app.cluster.lock import alone
from openpai.app.cluster.records import TASK, jobs_namespace, remove_tasks, task_pods
from openpai.app.cluster.target import (
    RELEASE,
    TIMEOUT_S,
    Confirm,
    Context,
    Kubeconfig,
    Namespace,
    Release,
    Target,
    Timeout,
    target,
)
from openpai.app.cluster.watching import await_ready, read_list
from openpai.cli.exits import Exit
from openpai.cli.options import option
from openpai.cli.output import Json, as_json, aside, next_step, say
from openpai.protocol.errors import BadConfiguration, InvalidParameters
from openpai.protocol.wording import plural

if TYPE_CHECKING:
    from openpai.kube.client import KubeClient


def down(
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
    namespace: Namespace = RELEASE,
    release: Release = RELEASE,
    delete_data: Annotated[
        bool, option("--delete-data", "Also end all tasks, and delete database, logs and the key of the secrets.")
    ] = False,
    confirm: Confirm = None,
    timeout_s: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Remove the platform from a cluster; asks for the cluster's name first.

    Tasks run on, and volumes, the key of the secrets and the namespace of the jobs stay: `pai cluster up` finds them.
    """
    at = target(kubeconfig, kube_context, namespace, release)
    helm = Helm(at)
    history = helm.history()
    place, tasks, kept = at.run(lambda client: _look(client, at))
    if not history and not kept and not (delete_data and place):
        message = f"there is no release {release} in namespace {namespace} of cluster {at.cluster}"
        raise BadConfiguration(message, "--namespace and --release name another one")
    fate = "ended, and it is deleted" if delete_data else "left running; `pai cluster up` takes them over again"
    if not json:
        say(f"remove release {release} from namespace {namespace} of cluster {at.cluster} ({at.access.server})")
        say(f"  {plural(tasks, 'task')} in namespace {place or '?'}: {fate}")
        say(f"  {'DELETED' if delete_data else 'kept'}: {', '.join(kept) or 'no volume and no key'}")
    require_name(at, confirm)
    if history:
        at.run(lambda client: _remove(client, at, helm, timeout_s))
    if delete_data:
        at.run(lambda client: _delete_data(client, at, place, timeout_s))
    if as_json(json, {**at.about(), "tasks": tasks, "dataDeleted": delete_data, "objects": kept}):
        return
    say("the platform and its data are gone" if delete_data else "the platform is gone; its data are kept")
    if not delete_data:
        next_step("pai cluster up", "pai cluster down --delete-data")


def require_name(at: Target, given: str | None) -> None:
    """Ask for the name of the cluster; end the command if it is another one."""
    if given is None:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise InvalidParameters("no terminal to ask for the cluster's name on", f"give --confirm {at.cluster}")
        given = str(typer.prompt(f"Type the name of the cluster ({at.cluster}) to go on", err=True))
    if given.strip() != at.cluster:
        aside(f"{given.strip()!r} is not {at.cluster!r}: nothing was done")
        raise typer.Exit(Exit.REFUSED)


async def _look(client: KubeClient, at: Target) -> tuple[str | None, int, list[str]]:
    place = await jobs_namespace(client, at)
    tasks = await task_pods(client, place)
    return place, len(tasks), [f"{kind} {name}" for kind, name in await _kept(client, at)]


async def _kept(client: KubeClient, at: Target) -> list[tuple[str, str]]:
    """Return the objects that outlive a release."""
    found = []
    for kind, resource in (("volume", "persistentvolumeclaims"), ("secret", "secrets")):
        listed = await read_list(client, f"/api/v1/namespaces/{at.namespace}/{resource}", labelSelector=at.selector)
        found += [(kind, str(one["metadata"]["name"])) for one in listed]
    return found


async def _remove(client: KubeClient, at: Target, helm: Helm, timeout_s: float) -> None:
    async with alone(client, at):
        await asyncio.to_thread(helm.uninstall)
        await await_ready(client, at, timeout_s, is_over=lambda found: not found.pods and not found.workloads)


async def _delete_data(client: KubeClient, at: Target, place: str | None, timeout_s: float) -> None:
    from openpai.kube.objects.kinds import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, SECRETS

    if place is not None and await client.find(NAMESPACES, place) is not None:
        # Their finalizers would keep the namespace for ever: the server that removes them is gone.
        await remove_tasks(client, place)
        for resource in ("secrets", "services"):
            path = f"/api/v1/namespaces/{place}/{resource}"
            for one in await read_list(client, path, labelSelector=TASK):
                await client.raw("DELETE", f"{path}/{one['metadata']['name']}")
    kinds: dict[str, Any] = {"volume": PERSISTENT_VOLUME_CLAIMS, "secret": SECRETS}
    for kind, name in await _kept(client, at):
        await client.delete(kinds[kind], name, at.namespace)
    for each in filter(None, {place, at.namespace}):
        found = await client.find(NAMESPACES, each)
        labels = (found.metadata.labels or {}) if found else {}
        if labels.get(OURS) == "created" or labels.get("app.kubernetes.io/instance") == at.release:
            await client.delete(NAMESPACES, each)
    await await_gone(client, at, timeout_s, place)
