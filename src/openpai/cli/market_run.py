"""`pai market run`: a job from an item, with the options that `pai job submit` has."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from openpai.cli import output, prompts, session
from openpai.cli.job_changes import Changes, changed, describe
from openpai.cli.job_submit import report_submitted
from openpai.cli.market import Name
from openpai.cli.options import fields_as_options, option
from openpai.protocol.errors import InvalidParameters, InvalidProtocol

if TYPE_CHECKING:
    from openpai.client.model import MarketDetail


@fields_as_options(Changes, "changes", without={"matrix", "max_running"})
def run(
    item: Name,
    secret_stdin: Annotated[
        bool, option("--secret-stdin", "Read the secrets that it needs from standard input, one line for each.")
    ] = False,
    watch: Annotated[bool, option("--watch -w", "Watch the job until it ends.")] = False,
    *,
    changes: Changes,
    json: output.Json = False,
) -> int:
    """Submit a job from an item, with your own parameters.

    The job is named after the item's job file, unless --name names it. Secrets that the item needs are asked for.
    """
    with session.connect() as pai:
        found = pai.market_item(item)
        if not found.protocol:
            raise InvalidParameters(f"item {item} has no job file", f"`pai market show {item}` says how jobs use it")
        given = {name: prompts.secret(f"{name} of {item}", secret_stdin, option="--secret-stdin")
                 for name in found.secrets}  # fmt: skip
        edited = changed(found.protocol.encode(), replace(changes, name=changes.name or _job_name(found)))
        try:
            job = pai.run_market_item(item, file=edited.content.decode(), secrets=given)
        except InvalidProtocol as refusal:
            refusal.message = describe(f"the job file of {item}", edited, refusal)
            refusal.advice = f"nothing was submitted; `pai market show {item} --file` prints the file"
            raise
        origin = f" from item {item}, revision {job.revision}"
        return report_submitted(pai, job, edited, watch=watch, json=json, origin=origin)


def _job_name(found: MarketDetail) -> str:
    """Return a name that no other job has."""
    return f"{found.name.replace('.', '-')}-{secrets.token_hex(2)}"
