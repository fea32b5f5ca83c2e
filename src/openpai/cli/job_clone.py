"""`pai job clone`: a job once more, under another name, with its secrets and whatever is changed on the way."""

from __future__ import annotations

from typing import Annotated

import typer

from openpai.cli import completing, output, session
from openpai.cli.exits import Exit
from openpai.cli.job_changes import (
    Changes,
    Env,
    Gpus,
    Instances,
    Priority,
    Set,
    TimeLimit,
    Vc,
    changed,
    describe,
)
from openpai.protocol.errors import InvalidProtocol

Origin = Annotated[str, typer.Argument(metavar="NAME", help="A job of your own.", autocompletion=completing.jobs)]


def clone(
    name: Origin,
    as_: Annotated[
        str | None, typer.Option("--name", metavar="NEW", help="Name of the new job [default: made up].")
    ] = None,
    set_: Set = None,
    vc: Vc = None,
    priority: Priority = None,
    time_limit: TimeLimit = None,
    env: Env = None,
    gpus: Gpus = None,
    instances: Instances = None,
    json: output.Json = False,
) -> int:
    """Submit a job once more, under another name, its secrets included."""
    import secrets

    with session.connect() as pai:
        own = name.rpartition("~")[2]
        new = as_ or f"{own[:250]}-{secrets.token_hex(2)}"
        wanted = Changes(new, set_, vc, priority, time_limit, env, gpus, instances)
        edited = changed(pai.config(name).encode(), wanted)
        try:
            job = pai.submit(edited.content, clone_of=name)
        except InvalidProtocol as refusal:
            refusal.message = describe(f"the file of {name}", edited, refusal)
            refusal.advice = f"nothing was submitted; `pai job config {name}` prints the file"
            raise
        for warning in job.warnings:
            output.warn(edited.remark(warning))
    if json:
        output.document(job.document)
        return Exit.OK
    output.say(f"Submitted {job.full_name}, a clone of {name}.")
    output.next_step(f"pai job logs {job.name} -f", f"pai job show {job.name}")
    return Exit.OK
