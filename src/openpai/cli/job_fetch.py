"""`pai job fetch`: the files that tasks left in their working directories, as long as they are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from openpai.cli import formatting, output, session
from openpai.cli.formatting import size
from openpai.cli.job import Name
from openpai.cli.options import argument, option
from openpai.cli.storage_files import this_machine
from openpai.protocol.errors import Refused


def fetch(
    name: Name,
    paths: Annotated[list[str] | None, argument("PATH", "Files and directories; all unless given.")] = None,
    to: Annotated[Path | None, option("--to DIRECTORY", "Directory to write to [default: ./NAME].")] = None,
    role: Annotated[str | None, option("--role -r ROLE", "Only of this task role.")] = None,
    index: Annotated[int | None, option("--index -i I", "Task of the role.", min=0)] = None,
    json: output.Json = False,
) -> None:
    """Fetch the files that the tasks of a job left in their working directories.

    Those of the newest attempt of each task; several tasks get a directory each. No existing file is replaced.
    """
    from openpai.client.kept_work import fetch_work

    goal = to or Path(name.rpartition("~")[2])
    with session.connect() as pai, this_machine():
        newest = {(one.role, one.index): one for one in pai.kept_work(name)}
        chosen = [one for one in newest.values() if role in (None, one.role) and index in (None, one.index)]
        if not chosen:
            raise Refused(
                "NoFileError",
                f"no files of the tasks of job {name} are kept",
                "files are kept for a day by default; write files that must last to a storage",
            )
        written = [
            path
            for one in chosen
            for path in fetch_work(pai, name, one, goal / one.name if len(chosen) > 1 else goal, paths or ())
        ]
    total = sum(path.stat().st_size for path in written)
    result = {"job": name, "directory": str(goal), "files": len(written), "bytes": total}
    output.done(json, result, f"{formatting.plural(len(written), 'file')}, {size(total)}, in {goal}.")
