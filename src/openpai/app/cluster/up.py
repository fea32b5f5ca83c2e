"""`pai cluster up`: install the platform in a cluster, or continue and correct an installation."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from openpai.app.check import Finding
from openpai.app.cluster import bundle as bundles
from openpai.app.cluster.helm import Helm
from openpai.app.cluster.parts import Snapshot, name_of
from openpai.app.cluster.plan import carry_out, confirm, planned, show, wanted
from openpai.app.cluster.target import (
    RELEASE,
    TIMEOUT_S,
    Chart,
    Context,
    DryRun,
    Kubeconfig,
    Namespace,
    Release,
    Sets,
    Target,
    Timeout,
    Values,
    target,
)
from openpai.cli.options import option
from openpai.cli.output import Json, as_json, next_step, say, warn
from openpai.cli.prompts import Yes
from openpai.protocol.errors import PaiError, Refused

if TYPE_CHECKING:
    from openpai.kube.client import KubeClient

_PASSWORD: Final = re.compile(rb"first start: user (\S+), password (\S+)")


def up(
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
    namespace: Namespace = RELEASE,
    release: Release = RELEASE,
    values: Values = None,
    set_: Sets = None,
    chart: Chart = None,
    bundle: Annotated[Path | None, option("--bundle FILE", "Install from a file of `pai cluster bundle`.")] = None,
    registry: bundles.Registry = None,
    containerd: bundles.Containerd = None,
    timeout_s: Timeout = TIMEOUT_S,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Install the platform in a cluster; shows what changes and asks first.

    Run it again after an interruption, or with other values: it goes on, changes only what differs, and keeps the
    values of earlier runs.
    """
    at = target(kubeconfig, kube_context, namespace, release)
    helm = Helm(at)
    _check(at)
    with ExitStack() as stack:
        sets = list(set_ or ())
        opened = stack.enter_context(bundles.opened(bundle)) if bundle else None
        if opened is not None:
            chart = chart or opened.chart
            sets = [*bundles.image_values(opened, registry), *sets]
        plan = stack.enter_context(planned(helm, at, wanted(chart, values, sets)))
        if not json:
            show(at, plan)
        if dry_run:
            as_json(json, {**at.about(), **plan.document()})
            return
        if not plan.is_nothing:
            confirm(at, plan, yes=yes)
        if opened is not None:
            bundles.deliver(opened, registry, containerd)
        found = carry_out(helm, at, plan, timeout_s)
        password = _first_password(at, found) if plan.current is None else None
        is_new = plan.current is None
    if as_json(json, {**at.about(), **plan.document(), "ready": True, "password": password}):
        return
    say(f"openpai {plan.version} is ready.")
    if password:
        say(f"first start: user admin, password {password}   (shown only now)")
    elif is_new:
        say("the administrator's password is in the log of the first server, or in the secret that you named")
    forward = f"kubectl -n {at.namespace} port-forward service/{at.name} 9186:80"
    next_step(forward, "pai login --url http://127.0.0.1:9186 --user admin", "pai cluster status")


def _check(at: Target) -> None:
    """Refuse a cluster that is too old, and warn of what jobs would miss."""
    from openpai.app import cluster_check
    from openpai.kube.errors import KubeError

    async def look(client: KubeClient) -> list[Finding]:
        found = [await cluster_check.check_version(client, at.access.server)]
        for one in (cluster_check.check_nodes(client, at.namespace), cluster_check.check_storage_classes(client)):
            try:
                found += await one
            except KubeError as error:
                found.append(Finding("cluster", "warning", error.message, error.advice))
        return found

    for finding in at.run(look):
        if finding.what == "API server" and finding.state == "fault":
            raise Refused("BadConfigurationError", finding.message, finding.advice)
        if finding.state != "ok":
            warn(f"{finding.what}: {finding.message}; {finding.advice}")


def _first_password(at: Target, found: Snapshot) -> str | None:
    """Return the password that the first server made up and wrote to its log; None if it did not."""

    async def read(client: KubeClient) -> str | None:
        for pod in found.pods:
            try:
                log = b"".join([part async for part in client.logs(name_of(pod), at.namespace, container="server")])
            except PaiError:
                continue
            if match := _PASSWORD.search(log):
                return match[2].decode()
        return None

    return at.run(read)
