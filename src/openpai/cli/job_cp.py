"""`pai job cp`: copy files and directories between this machine and a running task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

from openpai.cli import formatting, output, session
from openpai.cli.job_exec import Attempt, Task
from openpai.cli.options import argument
from openpai.cli.storage_files import this_machine
from openpai.protocol.errors import InvalidParameters


class _Remote(NamedTuple):
    job: str
    path: str


def cp(
    source: Annotated[str, argument("SOURCE", "File or directory here, or `JOB:PATH` in a task.")],
    target: Annotated[str, argument("TARGET", "Where to: `JOB:PATH` in a task, or a path here.")],
    task: Task = None,
    attempt: Attempt = None,
    json: output.Json = False,
) -> None:
    """Copy a file or a directory to or from a running task.

    An existing directory as the target gets the source inside it. Paths in a task begin in its working directory.
    Directories need tar in the image. Links that lead out of the copied directory, and special files, are left out.
    """
    from openpai.client.shells import task_of
    from openpai.client.task_files import copy_from, copy_to

    there, here = _remote(source), _remote(target)
    if (there is None) == (here is None):
        raise InvalidParameters("one of SOURCE and TARGET must be in a task", "name that one JOB:PATH")
    with session.connect() as pai, this_machine():
        if there is not None:
            place = task_of(pai, there.job, task, None if attempt is None else attempt - 1)
            copied = copy_from(pai, place, there.path, Path(target))
        elif here is not None:
            place = task_of(pai, here.job, task, None if attempt is None else attempt - 1)
            copied = copy_to(pai, place, Path(source), here.path)
    result = {"from": source, "to": target, "files": copied.files, "bytes": copied.bytes, "skipped": copied.skipped}
    for name in copied.skipped[:10]:
        output.warn(f"left out: {name}")
    files = formatting.plural(copied.files, "file")
    output.done(json, result, f"Copied {source} to {target} ({files}, {formatting.size(copied.bytes)}).")


def _remote(text: str) -> _Remote | None:
    job, colon, path = text.partition(":")
    if not colon or "/" in job or not job:
        return None
    return _Remote(job, path or ".")
