"""`pai cluster status`: the parts of a release, who leads, what is wrong, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from openpai.app.cluster import parts
from openpai.app.cluster.helm import Helm, Revision
from openpai.app.cluster.parts import Problem, Snapshot, name_of
from openpai.app.cluster.records import jobs_namespace, task_pods
from openpai.app.cluster.target import RELEASE, Context, Kubeconfig, Namespace, Release, Target, target
from openpai.app.cluster.watching import read_snapshot
from openpai.cli.output import Json, document, facts, say, table
from openpai.protocol.errors import BadConfiguration, PaiError

if TYPE_CHECKING:
    from openpai.kube.client import KubeClient


@dataclass(frozen=True)
class _Health:
    """Whether a server leads, and what is wrong with it or what it needs."""

    leads: bool = False
    error: str = ""


def status(
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
    namespace: Namespace = RELEASE,
    release: Release = RELEASE,
    json: Json = False,
) -> None:
    """Show parts, versions, leader, database and nodes of a release; exits with 1 if something is wrong."""
    at = target(kubeconfig, kube_context, namespace, release)
    history = Helm(at).history()
    if not history:
        message = f"there is no release {release} in namespace {namespace} of cluster {at.cluster}"
        raise BadConfiguration(message, "install it with: pai cluster up; --namespace and --release name another one")
    about = at.run(lambda client: _look(client, at, history[-1]))
    wrong: list[Problem] = about.pop("problems")
    if json:
        document({**about, "problems": [{"what": one.what, "message": one.message, "advice": one.advice}
                                        for one in wrong]})  # fmt: skip
    else:
        _print(about, wrong)
    if wrong:
        raise typer.Exit(1)


async def _look(client: KubeClient, at: Target, newest: Revision) -> dict[str, Any]:
    found = await read_snapshot(client, at)
    health = {name_of(pod): await _health(client, at, pod) for pod in found.pods if _is_server(pod)}
    place = await jobs_namespace(client, at)
    tasks = await task_pods(client, place)
    leader = next((name for name, one in health.items() if one.leads), "")
    version = await client.raw("GET", "/version")
    import msgspec

    wrong = [*_of_release(newest), *parts.problems(found)]
    wrong += [Problem(name, one.error, "its log says more") for name, one in health.items() if one.error]
    if found.is_ready and health and not leader and not wrong:
        wrong.append(Problem("leader", "no server leads, so no job starts", "look at the logs of the servers"))
    nodes, problem = await _nodes(client, place or at.namespace)
    return {
        **at.about(),
        "revision": newest.number,
        "state": newest.status,
        "version": newest.app_version,
        "chart": newest.chart,
        "kubernetes": msgspec.json.decode(version).get("gitVersion", "?"),
        "leader": leader,
        "database": _database(found),
        "jobsNamespace": place or "",
        "tasks": len(tasks),
        "nodes": nodes,
        "parts": [_part(pod) for pod in found.pods],
        "problems": wrong + problem,
    }


def _of_release(newest: Revision) -> list[Problem]:
    if newest.is_pending:
        message = f"revision {newest.number} is {newest.status} since {newest.updated[:19]}"
        return [Problem("release", message, "if no command is at work on it: pai cluster up")]
    if newest.status == "failed":
        return [Problem("release", f"revision {newest.number} failed: {newest.description}", "pai cluster rollback")]
    return []


async def _nodes(client: KubeClient, namespace: str) -> tuple[str, list[Problem]]:
    from openpai.app.cluster_check import check_nodes

    try:
        found = await check_nodes(client, namespace)
    except PaiError as error:
        return "unknown", [Problem("nodes", error.message, error.advice)]
    bad = [Problem(one.what, one.message, one.advice) for one in found if one.state == "fault"]
    seen = [
        one.message if one.what == "nodes" else f"{one.what}: {one.message}" for one in found if one.state != "fault"
    ]
    return "; ".join(seen), bad


def _is_server(pod: parts.Object) -> bool:
    return (pod["metadata"].get("labels") or {}).get("app.kubernetes.io/component") == "server"


async def _health(client: KubeClient, at: Target, pod: parts.Object) -> _Health:
    """Return what a server says of itself."""
    import msgspec

    if not any(one.get("ready") for one in pod.get("status", {}).get("containerStatuses", ())):
        return _Health()
    path = f"/api/v1/namespaces/{at.namespace}/pods/{name_of(pod)}:9186/proxy"
    leads = False
    try:
        leads = bool(msgspec.json.decode(await client.raw("GET", f"{path}/healthz")).get("leads"))
        await client.raw("GET", f"{path}/readyz")
    except PaiError as error:
        # The server's own words come after those of the proxy.
        return _Health(leads, error.message)
    return _Health(leads)


def _database(found: Snapshot) -> str:
    inner = [one for one in found.sets if name_of(one).endswith("-postgresql")]
    if inner:
        return f"PostgreSQL of the chart, {'ready' if parts.ready(inner[0]) else 'not ready'}"
    for one in found.deployments:
        for variable in one["spec"]["template"]["spec"]["containers"][0].get("env", ()):
            if variable["name"] == "PAI_DATABASE_URL":
                return f"PostgreSQL of the secret {variable['valueFrom']['secretKeyRef']['name']}"
    volumes = ", ".join(f"{name_of(one)} {one.get('status', {}).get('capacity', {}).get('storage', 'unbound')}"
                        for one in found.claims)  # fmt: skip
    return f"SQLite in volume {volumes or 'of yours'}"


def _part(pod: parts.Object) -> dict[str, Any]:
    containers = pod.get("status", {}).get("containerStatuses") or [{}]
    return {
        "pod": name_of(pod),
        "state": parts.pod_state(pod),
        "image": pod["spec"]["containers"][0]["image"],
        "node": pod["spec"].get("nodeName", ""),
        "restarts": containers[0].get("restartCount", 0),
    }


def _print(about: dict[str, Any], wrong: list[Problem]) -> None:
    names = ("cluster", "server", "kubernetes", "namespace", "release", "version", "chart", "leader", "database",
             "nodes", "jobsNamespace")  # fmt: skip
    shown = {name: str(about[name]) for name in names}
    shown["release"] += f", revision {about['revision']} ({about['state']})"
    shown["tasks"] = f"{about['tasks']} run"
    facts((("jobs in" if name == "jobsNamespace" else name, value) for name, value in shown.items()))
    say()
    rows = [[one["pod"], one["state"].partition(" on ")[0], one["node"], str(one["restarts"]), one["image"]]
            for one in about["parts"]]  # fmt: skip
    table(("POD", "STATE", "NODE", "RESTARTS", "IMAGE"), rows, right=("RESTARTS",))
    for one in wrong:
        advice = f"; {one.advice}" if one.advice else ""
        say(f"wrong   {one.what}: {one.message}{advice}")
