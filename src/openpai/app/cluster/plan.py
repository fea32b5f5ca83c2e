"""What a command would do to a release, and doing it: shown first, confirmed, carried out alone, and waited for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from openpai.app.cluster import manifests
from openpai.app.cluster.helm import Helm, Revision, chart_about, chart_directory, values_file
from openpai.app.cluster.leaving import await_gone
from openpai.app.cluster.lock import alone
from openpai.app.cluster.manifests import Change
from openpai.app.cluster.parts import Snapshot
from openpai.app.cluster.records import ensure_namespace, give_up_interrupted
from openpai.app.cluster.target import Target
from openpai.app.cluster.watching import await_ready
from openpai.cli.output import say
from openpai.cli.prompts import check_sure
from openpai.cli.text_file import read_text
from openpai.protocol.errors import BadConfiguration


@dataclass(frozen=True)
class Wanted:
    """The chart and the values that a release is to have."""

    chart: Path
    files: tuple[Path, ...]
    sets: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """The difference between a release as it is and as it is to be."""

    wanted: Wanted
    changes: tuple[Change, ...]
    current: Revision | None
    """The newest revision, also one that failed or was interrupted."""
    version: str

    @property
    def is_interrupted(self) -> bool:
        """Return whether an earlier command did not come to its end."""
        return self.current is not None and self.current.is_pending

    @property
    def is_nothing(self) -> bool:
        """Return whether Helm has nothing to do."""
        return not self.changes and self.current is not None and self.current.status == "deployed"

    def document(self) -> dict[str, Any]:
        """Return it for programs."""
        listed = [{**asdict(change), "key": str(change.key)} for change in self.changes]
        return {"version": self.version, "from": self.current and self.current.app_version, "changes": listed}


@contextlib.contextmanager
def planned(helm: Helm, target: Target, wanted: Wanted) -> Iterator[Plan]:
    """Yield what would change. Values of earlier commands stay, unless these set them to something else."""
    for file in wanted.files:
        _check_values(file.expanduser())
    history = helm.history()
    current = history[-1] if history else None
    if current is not None and current.status == "uninstalling":
        raise BadConfiguration(f"release {target.release} is being removed", "finish that with: pai cluster down")
    known = helm.values(current.number) if current else {}
    with values_file(known) as kept:
        whole = Wanted(wanted.chart, (kept, *(file.expanduser() for file in wanted.files)), wanted.sets)
        done = [one for one in history if not one.is_pending]
        rendered = helm.render(whole.chart, whole.files, whole.sets, is_upgrade=bool(done))
        before = helm.manifest(done[-1].number) if done else ""
        version = str(chart_about(whole.chart).get("appVersion", "")) or _version_of(rendered)
        yield Plan(whole, tuple(manifests.changes(before, rendered)), current, version)


def _check_values(file: Path) -> None:
    """Refuse a file that has no values of a chart. What of it is no YAML, Helm says."""
    what = "a YAML file with values of the chart"
    if file.is_fifo():
        raise BadConfiguration(f"{file} is a pipe, and helm reads values several times", f"name {what}")
    text = read_text(file, what, code="BadConfigurationError")
    with contextlib.suppress(yaml.YAMLError):
        found = yaml.safe_load(text)
        if found is not None and not isinstance(found, dict):
            raise BadConfiguration(f"{file} has no values with names", "write them like replicas: 2, a name in a line")


def _version_of(rendered: str) -> str:
    for one in manifests.objects(rendered).values():
        if found := (one["metadata"].get("labels") or {}).get("app.kubernetes.io/version"):
            return str(found)
    return "?"


def show(target: Target, plan: Plan) -> None:
    """Print what would change."""
    where = f"in namespace {target.namespace} of cluster {target.cluster} ({target.access.server})"
    if plan.current is None:
        say(f"install openpai {plan.version} as release {target.release} {where}")
    else:
        say(f"release {target.release} {where}: openpai {plan.current.app_version or '?'} -> {plan.version}")
    if plan.current is not None and plan.is_interrupted:
        say(f"revision {plan.current.number} was interrupted ({plan.current.status}); it is continued")
    for line in manifests.lines(plan.changes):
        say(f"  {line}")
    say(manifests.summary(plan.changes))


def confirm(target: Target, plan: Plan, *, yes: bool) -> None:
    """Ask before anything changes; end the command without consent."""
    check_sure(f"{manifests.summary(plan.changes)} in cluster {target.cluster}; go on?", yes, is_wide=True)


def carry_out(helm: Helm, target: Target, plan: Plan, timeout_s: float) -> Snapshot:
    """Let Helm apply the plan, and return once everything is ready."""
    from openpai.kube.client import KubeClient

    async def work(client: KubeClient) -> Snapshot:
        # Such as that which `pai cluster down --delete-data` has just removed.
        await await_gone(client, target, timeout_s)
        await ensure_namespace(client, target.namespace)
        async with alone(client, target):
            if plan.current is not None and plan.is_interrupted:
                await give_up_interrupted(client, target, plan.current)
            if not plan.is_nothing:
                await in_thread(lambda: helm.upgrade(plan.wanted.chart, plan.wanted.files, plan.wanted.sets))
            return await await_ready(client, target, timeout_s)

    return target.run(work)


async def in_thread(work: Any) -> Any:
    """Run something that blocks, so that the lease of this command is renewed meanwhile."""
    import asyncio

    return await asyncio.to_thread(work)


def wanted(chart: Path | None, files: Sequence[Path] | None, sets: Sequence[str] | None) -> Wanted:
    """Return what options want."""
    return Wanted(chart.expanduser() if chart else chart_directory(), tuple(files or ()), tuple(sets or ()))
