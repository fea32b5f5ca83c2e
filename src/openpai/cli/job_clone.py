"""`pai job clone`: a job once more, under another name, with its secrets and whatever is changed on the way."""

from __future__ import annotations

from typing import Annotated

import typer

from openpai.cli import completing, jobfile, output, session
from openpai.cli.exits import Exit

Origin = Annotated[str, typer.Argument(metavar="NAME", help="A job of your own.", autocompletion=completing.jobs)]


def clone(
    name: Origin,
    as_: Annotated[
        str | None, typer.Option("--name", metavar="NEW", help="Name of the new job [default: made up].")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Another value for a parameter.")
    ] = None,
    json: output.Json = False,
) -> int:
    """Submit a job once more, under another name, its secrets included."""
    import secrets

    with session.connect() as pai:
        own = name.rpartition("~")[2]
        new = as_ or f"{own[:250]}-{secrets.token_hex(2)}"
        content = jobfile.changed(pai.config(name).encode(), new, set_ or ())
        job = pai.submit(content, clone_of=name)
        for warning in job.warnings:
            output.warn(warning)
    if json:
        output.document(job.document)
        return Exit.OK
    output.say(f"Submitted {job.full_name}, a clone of {name}.")
    output.next_step(f"pai job logs {job.name} -f", f"pai job show {job.name}")
    return Exit.OK
