"""`pai admin import-jobs`: the job history of an OpenPAI, written into a database while its server is stopped.

Jobs that are over cannot be submitted, so they go past the API into the store; the server must be stopped because it
alone may write its data directory.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

from openpai.app.admin import ConfigOption, DatabaseOption, DataDirOption
from openpai.cli import output, prompts
from openpai.cli.formatting import plural
from openpai.cli.options import argument, option
from openpai.protocol.errors import InvalidParameters, Refused

if TYPE_CHECKING:
    from openpai.cli.openpai_source import OpenPai
    from openpai.store.jobs import SqlJobStore

PAGE: Final = 5_000
Result = tuple[str, str, str]
"""Name of a job, what happens to it, and why."""


def import_jobs(
    source: Annotated[str, argument("URL", "Address of an OpenPAI.")],
    apply: Annotated[bool, option("--apply", "Import; otherwise only show what an import would do.")] = False,
    data_dir: DataDirOption = Path("~/.local/share/openpai"),
    database_url: DatabaseOption = None,
    config: ConfigOption = None,
    token_stdin: Annotated[bool, option("--token-stdin", "Read OpenPAI's token from standard input.")] = False,
    json: output.Json = False,
) -> None:
    """Import the jobs of an OpenPAI that are over, while the server is stopped.

    Their files, states, times, exit codes and the nodes of their tasks are imported, as far as OpenPAI knows them; logs
    and secrets are not. It can be repeated: jobs that are here already are left alone. The token of an OpenPAI's
    administrator comes from PAI_IMPORT_TOKEN, a prompt, or standard input.
    """
    from openpai.cli.openpai_source import OpenPai

    if not source.startswith(("http://", "https://")):
        raise InvalidParameters(f"{source!r} is not a URL", "give the address of an OpenPAI, as in https://pai.example")
    token = "" if token_stdin else os.environ.get("PAI_IMPORT_TOKEN", "")
    token = token or prompts.secret("Token of an administrator of the OpenPAI", token_stdin, option="--token-stdin")
    with OpenPai(source, token.strip()) as old:
        results = asyncio.run(_imported(old, data_dir, database_url, apply=apply))
    counts = Counter(action for _, action, _ in results)
    if json:
        jobs = [{"name": name, "action": action, "detail": detail} for name, action, detail in results]
        output.document({"applied": apply, "counts": counts, "jobs": jobs})
        return
    output.table(["JOB", "ACTION", "DETAIL"], [one for one in results if one[1] == "skip"], whole=["ACTION"])
    done = "added" if apply else "to add"
    output.say(
        f"{plural(len(results), 'job')}: {counts['add']} {done}, {counts['keep']} here, {counts['skip']} skipped."
    )
    output.next_step(*(["pai up"] if apply else [f"pai admin import-jobs {source} --apply"]))


async def _imported(old: OpenPai, data_dir: Path, database_url: str | None, *, apply: bool) -> list[Result]:
    from openpai.app.datadir import known_data_dir
    from openpai.store.database import Database
    from openpai.store.jobs import SqlJobStore
    from openpai.store.opening import migrate

    data = known_data_dir(data_dir)
    try:
        database = Database(data.require_database(database_url))
        try:
            await asyncio.to_thread(migrate, database)
            store = SqlJobStore(database)
            return [await _import(old, store, summary, apply=apply) for summary in _summaries(old)]
        finally:
            database.close()
    finally:
        data.close()


def _summaries(old: OpenPai) -> Iterator[Mapping[str, Any]]:
    """Yield every job of the list, oldest first."""
    offset = 0
    while True:
        page = old.get(f"/jobs?order=submissionTime,ASC&limit={PAGE}&offset={offset}")
        yield from page
        offset += len(page)
        if len(page) < PAGE:
            return


async def _import(old: OpenPai, store: SqlJobStore, summary: Mapping[str, Any], *, apply: bool) -> Result:
    from openpai.app.openpai_jobs import ENDED, ended_job

    name = f"{summary.get('username')}~{summary.get('name')}"
    if summary.get("state") not in ENDED:
        return name, "skip", f"it is {summary.get('state')}: only jobs that are over can be imported"
    here = await store.load(str(summary.get("debugId")))
    if here is not None and here.version > 0:
        return name, "keep", ""
    if here is None and await store.find(str(summary.get("username")), str(summary.get("name"))) is not None:
        return name, "skip", "another job of that user has this name here"
    path = f"/jobs/{quote(name, safe='~')}"
    try:
        new, change = ended_job(summary, old.get(path), old.get(f"{path}/config"))
        if apply and here is None:
            await store.add_job(new, None)
        if apply:
            await store.save([change], None)
    except (Refused, KeyError, TypeError, ValueError, AttributeError) as error:
        message = error.message if isinstance(error, Refused) else f"it is not what OpenPAI answers ({error!r})"
        return name, "skip", " ".join(message.split())[:300]
    return name, "add", ""
