"""`pai cluster upgrade` and `pai cluster rollback`: another version of the platform while jobs run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from openpai.app.cluster import bundle as bundles
from openpai.app.cluster import manifests
from openpai.app.cluster.backup import Recipient, save
from openpai.app.cluster.helm import Helm, Revision, chart_about
from openpai.app.cluster.lock import alone
from openpai.app.cluster.plan import Plan, carry_out, confirm, planned, show, wanted
from openpai.app.cluster.records import INTERRUPTED, chart_annotations, give_up_interrupted
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
from openpai.app.cluster.watching import await_ready
from openpai.cli.options import option
from openpai.cli.output import Json, as_json, next_step, say
from openpai.cli.prompts import Yes, check_sure
from openpai.protocol.errors import BadConfiguration, Unavailable

if TYPE_CHECKING:
    from openpai.kube.client import KubeClient

SCHEMA: Final = "openpai/schema"
"""The annotation of the chart with the schema of the database that its version uses."""


def upgrade(
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
    namespace: Namespace = RELEASE,
    release: Release = RELEASE,
    values: Values = None,
    set_: Sets = None,
    chart: Chart = None,
    bundle: Annotated[Path | None, option("--bundle FILE", "Upgrade from a file of `pai cluster bundle`.")] = None,
    registry: bundles.Registry = None,
    containerd: bundles.Containerd = None,
    backup: Annotated[
        Path | None, option("--backup FILE", "Where the backup goes [default: RELEASE-TIME.backup here].")
    ] = None,
    recipient: Recipient = None,
    without_backup: Annotated[bool, option("--without-backup", "Take no backup before.")] = False,
    timeout_s: Timeout = TIMEOUT_S,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Bring a release to another version, after a backup; jobs run on.

    The new server brings the database up to date when it starts. `pai cluster rollback` undoes it.
    """
    at = target(kubeconfig, kube_context, namespace, release)
    helm = Helm(at)
    with ExitStack() as stack:
        sets = list(set_ or ())
        opened = stack.enter_context(bundles.opened(bundle)) if bundle else None
        if opened is not None:
            chart = chart or opened.chart
            sets = [*bundles.image_values(opened, registry), *sets]
        plan = stack.enter_context(planned(helm, at, wanted(chart, values, sets)))
        if plan.current is None:
            message = f"there is no release {release} in namespace {namespace} of cluster {at.cluster}"
            raise BadConfiguration(message, "install it with: pai cluster up")
        file = None if without_backup else backup or Path(f"{release}-{time.strftime('%Y%m%dT%H%M%S')}.backup")
        schemas = _schemas(at, plan)
        if not json:
            show(at, plan)
            say(_of_database(schemas))
            say("no backup is taken" if file is None else f"first a backup goes to {file}")
        if dry_run:
            as_json(json, {**at.about(), **plan.document(), "schemas": schemas})
            return
        if not plan.is_nothing:
            confirm(at, plan, yes=yes)
            if file is not None:
                save(at, file, recipient or (), quiet=json)
        if opened is not None:
            bundles.deliver(opened, registry, containerd)
        _carry_out(helm, at, plan, timeout_s)
    made = str(file) if file is not None and not plan.is_nothing else None
    if as_json(json, {**at.about(), **plan.document(), "ready": True, "backup": made}):
        return
    say(f"openpai {plan.version} is ready.")
    next_step("pai cluster status", "pai cluster rollback")


def _carry_out(helm: Helm, at: Target, plan: Plan, timeout_s: float) -> None:
    try:
        carry_out(helm, at, plan, timeout_s)
    except Unavailable as error:
        raise Unavailable(error.message, f"{error.advice}; to undo the upgrade: pai cluster rollback") from error


def _schemas(at: Target, plan: Plan) -> tuple[str, str]:
    """Return the schemas of the database before and after; empty where a chart does not say."""
    current = plan.current
    before = at.run(lambda client: chart_annotations(client, at, current.number)) if current else {}
    after = chart_about(plan.wanted.chart).get("annotations") or {}
    return str(before.get(SCHEMA, "")), str(after.get(SCHEMA, ""))


def _of_database(schemas: tuple[str, str]) -> str:
    before, after = schemas
    if before == after:
        return f"database: stays at schema {after}" if after else "database: the new server may bring it up to date"
    return f"database: schema {before or '?'} -> {after or '?'}; the new server brings it up to date when it starts"


def rollback(
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
    namespace: Namespace = RELEASE,
    release: Release = RELEASE,
    revision: Annotated[
        int | None, option("--revision NUMBER", "The revision to go back to [default: the one that worked before].")
    ] = None,
    force: Annotated[bool, option("--force", "Also where the database has become too new for that version.")] = False,
    timeout_s: Timeout = TIMEOUT_S,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Go back to the revision of a release that worked before; jobs run on.

    Refused where the newer version changed the database: then only a backup leads back.
    """
    at = target(kubeconfig, kube_context, namespace, release)
    helm = Helm(at)
    history = helm.history()
    back = _earlier(history, revision, at)
    current = history[-1]
    found = manifests.changes(helm.manifest(current.number), helm.manifest(back.number))
    _refuse_older_schema(at, history, back, force=force)
    if not json:
        say(f"release {release} of cluster {at.cluster}: revision {current.number} (openpai {current.app_version}) "
            f"-> {back.number} (openpai {back.app_version})")  # fmt: skip
        for line in manifests.lines(found):
            say(f"  {line}")
    check_sure(f"{manifests.summary(found)} in cluster {at.cluster}; go on?", yes, is_wide=True)

    async def work(client: KubeClient) -> None:
        async with alone(client, at):
            if current.is_pending:
                await give_up_interrupted(client, at, current)
            await asyncio.to_thread(helm.rollback, back.number)
            await await_ready(client, at, timeout_s)

    at.run(work)
    if as_json(json, {**at.about(), "revision": back.number, "version": back.app_version, "ready": True}):
        return
    say(f"openpai {back.app_version} is ready again.")
    next_step("pai cluster status")


def _earlier(history: Sequence[Revision], wanted: int | None, at: Target) -> Revision:
    if not history:
        raise BadConfiguration(f"there is no release {at.release} in namespace {at.namespace}", "pai cluster up")
    # Helm calls an interrupted revision superseded, too, once a later one has taken its place.
    known = (one for one in history[:-1] if one.description != INTERRUPTED)
    worked = [one for one in known if one.status in ("superseded", "deployed")]
    if wanted is not None:
        worked = [one for one in worked if one.number == wanted]
    if not worked:
        listed = ", ".join(f"{one.number} ({one.status}, {one.app_version})" for one in history)
        which = f"no revision {wanted} that worked" if wanted else "no earlier revision that worked"
        raise BadConfiguration(f"release {at.release} has {which}; it has {listed}", "choose one with --revision")
    return worked[-1]


def _refuse_older_schema(at: Target, history: Sequence[Revision], back: Revision, *, force: bool) -> None:
    async def schemas(client: KubeClient) -> list[str]:
        since = [one for one in history if one.number > back.number and not one.is_pending]
        return [(await chart_annotations(client, at, one.number)).get(SCHEMA, "") for one in (back, *since)]

    target_schema, *since = at.run(schemas)
    newest = max(since, default="")
    if target_schema and newest > target_schema and not force:
        message = f"openpai {back.app_version} knows the database up to schema {target_schema}; it may be at {newest}"
        advice = "go back with --force, and restore the backup that the upgrade took: pai cluster restore FILE"
        raise BadConfiguration(message, advice)
