"""`pai storage ls`, `upload`, `download` and `rm`: the files in a storage, with a progress bar."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from openpai.cli import formatting, output, prompts, session
from openpai.cli.formatting import size
from openpai.cli.options import argument, option
from openpai.cli.storage import Name
from openpai.protocol.errors import InvalidParameters, Refused

if TYPE_CHECKING:
    from openpai.client import Client

Where = Annotated[str, argument("PATH", "A path in the storage.")]


def ls(name: Name, path: Where = "", json: output.Json = False) -> None:
    """List the files in a directory of a storage."""
    with session.connect() as pai:
        found = list(pai.stored_files(name, path))
    if output.is_shown(json, [one.document for one in found], found, "No files.", f"pai storage upload {name} FILE"):
        return
    rows = [
        (one.name.replace("\n", "\\n") + "/" * one.is_directory, "" if one.is_directory else size(one.size),
         formatting.clock_time(one.modified_at_ms))
        for one in found
    ]  # fmt: skip
    output.table(("NAME", "SIZE", "CHANGED"), rows, right=("SIZE",), whole=("CHANGED",))


def upload(
    name: Name,
    sources: Annotated[list[Path], argument("FILE", "Files and directories on this machine.")],
    to: Annotated[str, option("--to PATH", "Directory of the storage; its top unless given.")] = "",
    json: output.Json = False,
) -> None:
    """Upload files and directories to a storage; existing files are replaced."""
    from openpai.client.calls.storages import file_path

    with this_machine():
        for source in sources:
            if not source.exists():
                raise Refused("NoFileError", f"there is no file or directory {source}", "check the path")
        with session.connect() as pai:
            # Many files are not looked through for a storage that does not exist.
            pai.storage(name)
            plan = [(file, f"{to.strip('/')}/{goal}") for source in sources for file, goal in _files(source)]
            for _, goal in plan:
                # Refuse a bad path before the first file is sent.
                file_path(name, goal)
            total = sum(file.stat().st_size for file, _ in plan)
            files = pai.files(name)
            with _bar("uploading", total) as progress:
                for file, goal in plan:
                    files.upload(file, goal, progress)
    _moved(json, name, len(plan), total, f"pai storage ls {name} {to}".rstrip())


def download(
    name: Name,
    path: Annotated[str, argument("PATH", "A file or directory in the storage; / is all of it.")],
    to: Annotated[Path, option("--to DIRECTORY", "Directory to write to; this one unless given.")] = Path(),
    json: output.Json = False,
) -> None:
    """Download a file, or a directory with everything in it, from a storage."""
    with session.connect() as pai, this_machine():
        plan = list(_stored(pai, name, path.strip("/")))
        total = sum(count for _, _, count in plan)
        with _bar("downloading", total) as progress:
            files = pai.files(name)
            for source, goal, _ in plan:
                place = to / goal
                place.parent.mkdir(parents=True, exist_ok=True)
                files.download(source, place, progress)
    _moved(json, name, len(plan), total, "")


def rm(
    name: Name,
    paths: Annotated[list[str], argument("PATH", "Files and directories in the storage.")],
    recursive: Annotated[bool, option("--recursive -r", "Also directories, with everything in them.")] = False,
    yes: prompts.Yes = False,
    json: output.Json = False,
) -> None:
    """Remove files from a storage."""
    if recursive:
        prompts.check_sure(f"Remove {', '.join(paths)} from {name} with everything in it?", yes)
    with session.connect() as pai:
        for path in paths:
            pai.remove_file(name, path, recursive=recursive)
    output.done(
        json, {"storage": name, "removed": paths}, f"Removed {formatting.plural(len(paths), 'path')} from {name}."
    )


def _files(source: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files below a path of this machine, each with its path in the storage."""
    whole = source.absolute()
    if source.is_file():
        yield source, whole.name
        return
    top = Path(whole.resolve().name)
    waiting = [source]
    # Not `os.walk`: before Python 3.12 it recurses for each level, and a deep directory overflows the stack.
    while waiting:
        with os.scandir(waiting.pop()) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                continue
            if path.is_file():
                yield path, str(top / path.relative_to(source))
            else:
                output.warn(f"{path} is left out: only files and directories are uploaded, and links to files")
        waiting += [Path(entry.path) for entry in reversed(entries) if entry.is_dir(follow_symlinks=False)]


@contextlib.contextmanager
def this_machine() -> Iterator[None]:
    """Report errors of this machine as such, and not as bugs."""
    try:
        yield
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        message = f"error on this machine: {where}{error.strerror or error}"
        raise InvalidParameters(message, "check the path, its permissions, and the free space") from error


def _stored(pai: Client, name: str, path: str) -> Iterator[tuple[str, Path, int]]:
    """Yield the files at or below a path in a storage: where each is, where it goes, and its size."""
    above, _, last = path.rpartition("/")
    if path:
        found = next((one for one in pai.stored_files(name, above) if one.name == last), None)
        if found is None:
            raise Refused(
                "NoFileError",
                f"storage {name} has no {path}",
                f"`pai storage ls {name} {above}".rstrip() + "` shows its files",
            )
        if not found.is_directory:
            yield path, Path(last), found.size
            return
    from openpai.client.calls.storages import UNFIT

    waiting = [(path, Path(last or name))]
    while waiting:
        directory, goal = waiting.pop()
        for one in pai.stored_files(name, directory):
            # An object store allows any name; one like `..` would lead out of the target directory.
            if one.name in ("", ".", "..") or "/" in one.name or UNFIT.search(one.name):
                output.warn(f"{one.name!r} in {directory or '/'} has a name that cannot be requested and is left out")
                continue
            inside = f"{directory}/{one.name}".lstrip("/")
            if one.is_directory:
                waiting.append((inside, goal / one.name))
            else:
                yield inside, goal / one.name, one.size


@contextlib.contextmanager
def _bar(what: str, total: int) -> Iterator[Callable[[int], Any]]:
    """Show progress on a terminal; yield the function to call with each number of bytes."""
    console = output.error_console()
    if not console.is_terminal:
        yield lambda count: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda count: shown.advance(task, count)


def _moved(is_json: bool, name: str, files: int, count: int, step: str) -> None:
    message = f"{formatting.plural(files, 'file')}, {size(count)}."
    output.done(is_json, {"storage": name, "files": files, "bytes": count}, message, *filter(None, [step]))
