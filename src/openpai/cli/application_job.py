"""Jobs that exist for one application: their files, and how `pai lab` and `pai tensorboard` submit them."""

from __future__ import annotations

import json as json_
import secrets
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from openpai.cli import completion, formatting, output, run_defaults
from openpai.cli.durations import FORMS, whole_seconds
from openpai.cli.exits import Exit
from openpai.cli.job_open import open_when_ready
from openpai.cli.options import setting
from openpai.protocol.errors import InvalidParameters

if TYPE_CHECKING:
    from openpai.client import Client

PORT_LABEL: Final = "http"


@dataclass(frozen=True, slots=True)
class Needs:
    """What a job with an application gets; each field is an option."""

    name: str | None = setting("Name of the job [default: made up].", flags="--name NAME")
    gpus: int = setting("GPUs.", 0, flags="--gpus N", min=0)
    cpus: int = setting("CPU cores.", 1, flags="--cpus N", min=1)
    memory: str = setting("Memory, like 8G or 512M.", "4G", flags="--memory SIZE")
    image: str | None = setting(
        "Image that has the program; tasks of the process backend need none.", flags="--image IMAGE"
    )
    vc: str | None = setting("Virtual cluster to run in.", flags="--vc NAME", complete=completion.virtual_clusters)
    hours: float | None = setting(
        "After how many hours it is stopped, whether it is used or not.", flags="--hours HOURS"
    )
    idle: str | None = setting(
        f"After how long without use it is stopped: {FORMS}; 0 for never [default: the operator's].",
        flags="--idle TIME",
    )


@dataclass(frozen=True, slots=True)
class Program:
    """The server of an application."""

    name: str
    title: str
    image: str
    commands: tuple[str, ...]
    path: str = "/"
    health_path: str = "/"
    kind: str = "web"


def job_of(program: Program, needs: Needs, storages: tuple[str, ...] = (), code: str = "") -> dict[str, Any]:
    """Return the job file."""
    if needs.hours is not None and not 0 < needs.hours <= 24 * 365:
        raise InvalidParameters(f"--hours {needs.hours:g} is not a time", "give hours, such as 8 or 0.5")
    application = {
        "name": program.name,
        "title": program.title,
        "port": PORT_LABEL,
        "path": program.path,
        "healthPath": program.health_path,
        "kind": program.kind,
        "ownsJob": True,
    }
    if needs.idle is not None:
        application["idleSeconds"] = 0 if needs.idle.strip() == "0" else whole_seconds(needs.idle, "--idle")
    extras: dict[str, Any] = {"applications": [application]}
    if storages:
        extras["storages"] = [{"name": name} for name in storages]
    if code:
        extras["code"] = code
    if needs.hours is not None:
        extras["timeLimitMinutes"] = round(needs.hours * 60, 2)
    role = {
        "instances": 1,
        "dockerImage": "image",
        "resourcePerInstance": {
            "cpu": needs.cpus,
            "memoryMB": run_defaults.megabytes(needs.memory),
            "gpu": needs.gpus,
            "ports": {PORT_LABEL: 1},
        },
        "commands": list(program.commands),
    }
    job = {
        "protocolVersion": 2,
        "name": needs.name or f"{program.name}-{secrets.token_hex(2)}",
        "type": "job",
        "description": f"{program.title}, started with pai {program.name}",
        "prerequisites": [{"type": "dockerimage", "name": "image", "uri": needs.image or program.image}],
        "taskRoles": {program.name: role},
        "extras": extras,
    }
    return {**job, "defaults": {"virtualCluster": needs.vc}} if needs.vc else job


def print_job(job: dict[str, Any]) -> int:
    """Print a job file; return the exit code."""
    import yaml

    sys.stdout.write(yaml.dump(job, Dumper=_literal_dumper(), sort_keys=False, allow_unicode=True, width=1000))
    return Exit.OK


def submit(pai: Client, job: dict[str, Any], *, detach: bool, browser: bool, json: bool) -> int:
    """Submit a job, and print the address of its application when that is ready; return the exit code."""
    submitted = pai.submit(json_.dumps(job).encode())
    for warning in submitted.warnings:
        output.warn(warning)
    role = next(iter(job["taskRoles"].values()))
    need = role["resourcePerInstance"]
    gpus = f"{formatting.plural(need['gpu'], 'GPU')}, " if need["gpu"] else ""
    if detach:
        if not output.as_json(json, submitted.document):
            output.say_marked_up(f"Submitted [bold]{submitted.full_name}[/].")
            output.next_step(f"pai job open {submitted.name}", f"pai job show {submitted.name}")
        return Exit.OK
    if not json:
        size = f"{gpus}{formatting.plural(need['cpu'], 'CPU')}, {formatting.memory(need['memoryMB'])}"
        output.say_marked_up(f"Submitted [bold]{submitted.full_name}[/] with {size}.")
    return open_when_ready(pai, submitted.name, None, browser=browser, json=json)


def directory_of_storage(storage: str, path: str = "") -> str:
    """Return shell text that sets `dir` to a directory of a mounted storage."""
    below = f"/{path.strip('/')}" if path.strip("/") else ""
    return "\n".join(
        (
            f'dir="${{PAI_WORK_DIR:-}}/mnt/"{shlex.quote(storage)}',
            f'[ -d "$dir" ] || dir=/mnt/{shlex.quote(storage)}',
            f'dir="$dir"{shlex.quote(below)}' if below else ":",
        )
    )


def _literal_dumper() -> Any:
    import yaml

    class Literal(yaml.SafeDumper):
        """Writes texts of several lines as they are."""

    def text(dumper: Any, value: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Literal.add_representer(str, text)
    return Literal
