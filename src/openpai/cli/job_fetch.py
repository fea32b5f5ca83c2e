"""`pai job fetch`: the files that tasks left in their working directories, as long as they are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from openpai.cli import formatting, output, session
from openpai.cli.formatting import size
from openpai.cli.job import Name
from openpai.cli.options import argument, option
from openpai.cli.storage_files import this_machine
from openpai.protocol.errors import InvalidParameters, Refused


def fetch(
    name: Name,
    paths: Annotated[
        list[str] | None, argument("PATH", "Files, directories, and patterns; otherwise the job's outputs.")
    ] = None,
    to: Annotated[Path | None, option("--to -o DIRECTORY", "Directory to write to [default: ./NAME].")] = None,
    role: Annotated[str | None, option("--role -r ROLE", "Only of this task role.")] = None,
    index: Annotated[int | None, option("--index -i I", "Task of the role.", min=0)] = None,
    attempt: Annotated[int | None, option("--attempt N", "Attempt of the job; the newest unless given.", min=0)] = None,
    everything: Annotated[bool, option("--all", "All files, also those that are no outputs.")] = False,
    archive: Annotated[
        Path | None, option("--archive FILE", "Write one compressed archive (tar.gz) instead of files.")
    ] = None,
    json: output.Json = False,
) -> None:
    """Fetch the files that the tasks of a job left in their working directories.

    Of a job that names `outputs`, those, and all files of others. Those of the newest attempt of each task are
    fetched; several tasks get a directory each. No existing file is replaced.
    """
    from openpai.client.kept_work import fetch_archive, fetch_work

    if archive is not None and to is not None:
        raise InvalidParameters("--archive writes a file, and --to a directory", "give one of them")
    if archive is not None:
        with session.connect() as pai, this_machine():
            tasks = {"role": role, "index": index, "attempt": attempt}
            length = fetch_archive(pai, name, archive, paths or (), everything=everything, **tasks)
        output.done(json, {"job": name, "archive": str(archive), "bytes": length}, f"{size(length)} in {archive}.")
        return
    goal = to or Path(name.rpartition("~")[2])
    with session.connect() as pai, this_machine():
        kept = [one for one in pai.kept_work(name) if attempt in (None, one.job_attempt)]
        newest = {(one.role, one.index): one for one in kept}
        chosen = [one for one in newest.values() if role in (None, one.role) and index in (None, one.index)]
        if not chosen:
            raise Refused(
                "NoFileError",
                f"no files of {_which(name, role, index, attempt)} are kept",
                "what is in $PAI_WORK_DIR is kept, for a day by default; containers start in their image's WORKDIR",
            )
        written: list[Path] = []
        missed: Refused | None = None
        left_out: list[str] = []
        for one in chosen:
            target = goal / one.name if len(chosen) > 1 else goal
            try:
                written += fetch_work(pai, name, one, target, paths or (), everything=everything, unfit=left_out.append)
            except Refused as error:
                # Some of several tasks may have left nothing of what is wanted.
                if error.code != "NoFileError":
                    raise
                missed = error
        if missed is not None and not written:
            raise missed
    if left_out:
        output.warn(
            f"left out: {formatting.plural(len(left_out), 'file')} of an odd name, such as {left_out[0]!r:.200}"
        )
    total = sum(path.stat().st_size for path in written)
    result = {"job": name, "directory": str(goal), "files": len(written), "bytes": total}
    output.done(json, result, f"{formatting.plural(len(written), 'file')}, {size(total)}, in {goal}.")


def _which(name: str, role: str | None, index: int | None, attempt: int | None) -> str:
    tasks = f"task role {role}" if role is not None else "the tasks"
    if index is not None:
        tasks = f"task {role or ''}{'-' if role else ''}{index}"
    return f"{tasks} of job {name}" + ("" if attempt is None else f" in attempt {attempt}")
