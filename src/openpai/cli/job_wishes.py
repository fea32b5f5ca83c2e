"""`pai job stop`, `start` and `wait`: what a person may want of a job that exists."""

from __future__ import annotations

from typing import Annotated

import typer

from openpai.cli import output, session
from openpai.cli.exits import Exit
from openpai.cli.job_submit import Name, ended


def stop(name: Name, json: output.Json = False) -> None:
    """Let a job end; harmless when it is over already."""
    with session.connect() as pai:
        pai.stop(name)
        if json:
            output.document(pai.job(name).document)
            return
    output.say(f"{name} will stop; its tasks are asked to end and may save their work.")
    output.next_step(f"pai job wait {name}", f"pai job start {name}")


def start(name: Name, json: output.Json = False) -> None:
    """Let a job that is over run again, as a new attempt."""
    with session.connect() as pai:
        pai.start(name)
        if json:
            output.document(pai.job(name).document)
            return
    output.say(f"{name} will run again.")
    output.next_step(f"pai job logs {name} -f", f"pai job show {name}")


def wait(
    name: Name,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Give up after so long.")
    ] = None,
    json: output.Json = False,
) -> int:
    """Wait until a job is over.

    The exit code says whether it succeeded.
    """
    with session.connect() as pai:
        job = pai.wait(name, timeout)
    if json:
        output.document(job.document)
        return Exit.OK if job.state == "SUCCEEDED" else Exit.JOB_FAILED
    return ended(job)
