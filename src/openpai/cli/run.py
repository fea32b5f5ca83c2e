"""`pai run`: a command as a job, without a job file: defaults are guessed and shown."""

from __future__ import annotations

import json as json_
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from openpai.cli import completion, formatting, output, run_code, run_defaults, session
from openpai.cli.exits import Exit
from openpai.cli.job_changes import Changes, changed, describe
from openpai.cli.job_submit import report_submitted
from openpai.cli.options import argument, fields_as_options, option
from openpai.protocol.errors import InvalidParameters, InvalidProtocol, Refused

if TYPE_CHECKING:
    from openpai.cli.run_code import CodeTransfer
    from openpai.client import Client

ROLE: Final = "main"
Words = Annotated[list[str], argument("COMMAND", "Command to run, best after `--`.")]


@fields_as_options(Changes, "changes", without={"name", "parameters", "gpus", "instances"})
def run(
    command: Words,
    gpus: Annotated[int, option("--gpus N", "GPUs for each task.", min=0)] = 0,
    cpus: Annotated[int | None, option("--cpus N", "CPU cores for each task.", min=1)] = None,
    memory: Annotated[str | None, option("--memory SIZE", "Memory for each task, like 8G or 512M.")] = None,
    instances: Annotated[int, option("--instances N", "Number of tasks.", min=1)] = 1,
    name: Annotated[str | None, option("--name NAME", "Name of the job [default: from the command].")] = None,
    image: Annotated[str | None, option("--image IMAGE", "Image [default: guessed].")] = None,
    directory: Annotated[Path, option("--dir DIRECTORY", "Directory of the code; this one unless given.")] = Path(),
    storage: Annotated[
        str | None,
        option(
            "--storage NAME", "Send the code through this storage; needed for more than 640 KB.", completion.storages
        ),
    ] = None,
    no_code: Annotated[bool, option("--no-code", "Do not send code.")] = False,
    in_place: Annotated[
        bool, option("--in-place", "Run in the directory itself; for a server on this machine.")
    ] = False,
    *,
    changes: Changes,
    detach: Annotated[bool, option("--detach -d", "Return once the job is submitted.")] = False,
    print_: Annotated[bool, option("--print", "Print the job file instead of running it.")] = False,
    json: output.Json = False,
) -> int:
    """Run a command as a job, with the code in this directory.

    Files that .gitignore or .paiignore name are not sent. Name, image and resources are guessed unless given.
    """
    if in_place + no_code + (storage is not None) > 1:
        raise InvalidParameters("give one of --in-place, --no-code and --storage", "see pai run --help")
    line = command[0] if len(command) == 1 else shlex.join(command)
    called = name or run_defaults.name_of(line)
    picture, why = (image, "given") if image else run_defaults.image_of(line, directory)
    with session.connect() as pai:
        share = run_defaults.share_of(pai, gpus, changes.vc)
        need = {
            "cpu": cpus or share[0] * max(1, gpus),
            "memoryMB": run_defaults.megabytes(memory) if memory else share[1] * max(1, gpus),
            "gpu": gpus,
        }
        transfer = _transfer(pai, directory, called, storage, no_code=no_code, in_place=in_place, is_dry=print_)
        job = _job(called, line, picture, need, transfer)
        job["taskRoles"][ROLE]["instances"] = instances
        edited = changed(json_.dumps(job).encode(), changes)
        if print_:
            from openpai.protocol.writing import masked_yaml

            sys.stdout.write(masked_yaml(edited.content.decode()))
            return Exit.OK
        if not json:
            _show(job, transfer, line, why)
        try:
            submitted = pai.submit(edited.content)
        except Refused as refusal:
            # After any other error the server may have accepted the job, which then needs its code.
            run_code.remove(pai, transfer)
            if isinstance(refusal, InvalidProtocol):
                refusal.message = describe("the job", edited, refusal)
                refusal.advice = "see pai run --help"
            raise
        steps = () if in_place else (f"pai job fetch {submitted.name}",)
        return report_submitted(pai, submitted, edited, watch=not detach, json=json, steps=steps)


run.context_settings = {"allow_interspersed_args": False}  # type: ignore[attr-defined]


def _transfer(
    pai: Client,
    directory: Path,
    name: str,
    storage: str | None,
    *,
    no_code: bool,
    in_place: bool,
    is_dry: bool,
) -> CodeTransfer:
    if no_code:
        return run_code.NONE
    if in_place:
        return run_code.in_place(pai.url, directory)
    from openpai.client.code import code_of

    return run_code.send(pai, code_of(directory), name, storage, is_dry=is_dry)


def _job(name: str, line: str, image: str, need: dict[str, int], transfer: CodeTransfer) -> dict[str, Any]:
    role = {"dockerImage": "image", "resourcePerInstance": need, "commands": [*transfer.commands, line]}
    return {
        "protocolVersion": 2,
        "name": name,
        "type": "job",
        "description": f"pai run: {line[:200]}",
        "prerequisites": [{"type": "dockerimage", "name": "image", "uri": image}],
        "taskRoles": {ROLE: role},
        **({"extras": {"storages": [{"name": transfer.storage}]}} if transfer.storage else {}),
    }


def _show(job: dict[str, Any], transfer: CodeTransfer, line: str, why: str) -> None:
    role = job["taskRoles"][ROLE]
    need = role["resourcePerInstance"]
    gpus = f"{formatting.plural(need['gpu'], 'GPU')}, " if need["gpu"] else ""
    size = f"{gpus}{formatting.plural(need['cpu'], 'CPU')}, {formatting.memory(need['memoryMB'])}"
    shown = {
        "job": job["name"],
        "command": line,
        "tasks": f"{role['instances']} with {size}" + (" each" if role["instances"] > 1 else ""),
        "image": f"{job['prerequisites'][0]['uri']} ({why})",
        "code": transfer.message,
    }
    output.facts(shown.items())
