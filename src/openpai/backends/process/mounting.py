"""Gives processes their storages: links in the working directory and, where possible, mounts of their own.

A link needs no rights. If the server is root on Linux, the task also gets a mount namespace of its own, in which each
storage is mounted where its job wants it, and read-only storages are read-only by every path. The program that mounts
becomes the task's wrapper, so no other process remains and the mounts end with the task.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from openpai.backends.host.directory import make_directory
from openpai.backends.host.mounts import local_source, variable
from openpai.lifecycle.model import ExitReason
from openpai.ports.backend import Mount
from openpai.runtime.script import EXIT_FILE, TICKET_FILE

LINKS: Final = "mnt"
_FREE_PLACE: Final = re.compile(r"/mnt/(?!\.{1,2}$)[^/]+")
_FAILED: Final = ExitReason.LAUNCH_FAILED.value
_BINDER: Final = rf"""dir=$1 count=$2
shift 2
fail() {{
    output=$(printf %s "$1" | tr '\n' ' ')
    set -C
    {{ echo fenced >"$dir/{TICKET_FILE}"; }} 2>/dev/null
    {{ printf 'code 1\nreason {_FAILED}\nmessage %s\nend\n' "$output" >"$dir/{EXIT_FILE}"; }} 2>/dev/null
    exit 1
}}
while [ "$count" -gt 0 ]; do
    [ -d "$3" ] || output=$(mkdir -p -- "$3" 2>&1) || fail "$output"
    output=$(mount -o "bind,$1" -- "$2" "$3" 2>&1) || fail "$output"
    shift 3
    count=$((count - 1))
done
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Mounted:
    """What a task's storages add to its start."""

    prefix: tuple[str, ...] = ()
    """The words to put before the command that starts it."""
    environment: Mapping[str, str] = field(default_factory=dict)
    binds: tuple[str, ...] = ()
    """The mounts of `prefix`: `ro` or `rw`, source and target of each."""


def mount_all(
    mounts: Sequence[Mount], directory: str, work: str, shell: str, *, owner: int = -1, is_private: bool = False
) -> Mounted:
    """Link a task's storages into its working directory and return how they are mounted where its job wants.

    A folder that must be created becomes that of the user `owner`, who runs the task; -1 is the server's own. A private
    task may not see where a storage is on the machine, only where it is mounted.
    Raise ValueError for what this backend cannot mount, and OSError for a missing directory.
    """
    if not mounts:
        return Mounted()
    sources = {mount: _source(mount, owner) for mount in mounts}
    program = unshare_program()
    if program and owner >= 0:
        _check_places(mounts)
    make_directory(f"{work}/{LINKS}")
    os.chmod(f"{work}/{LINKS}", 0o755)  # noqa: PTH101, S103  # the working directory lets only its own task in
    for mount, source in sources.items():
        with contextlib.suppress(FileExistsError):
            os.symlink(mount.mount_path if is_private else source, f"{work}/{LINKS}/{mount.name}")  # noqa: PTH211
    if not program:
        return Mounted((), {variable(mount): f"{work}/{LINKS}/{mount.name}" for mount in mounts})
    binds: list[str] = []
    closed: list[str] = []
    for mount, source in sources.items():
        mode = "ro" if mount.is_read_only else "rw"
        binds += [mode, source, mount.mount_path]
        if mount.is_read_only:
            closed += [mode, source, source]
    # Last, because it would also close a writable storage of the same directory.
    binds += closed
    prefix = (program, "--mount", "--propagation", "private", shell, "-c", _BINDER, "binder", directory)
    environment = {variable(mount): mount.mount_path for mount in mounts}
    return Mounted((*prefix, str(len(binds) // 3), *binds), environment, tuple(binds))


def _check_places(mounts: Sequence[Mount]) -> None:
    """Raise ValueError for a place where a storage could hide programs or files that root will use."""
    for mount in mounts:
        place = mount.mount_path
        if not _FREE_PLACE.fullmatch(place) or (os.path.lexists(place) and not _is_empty_directory(place)):
            raise ValueError(
                f"storage {mount.name} cannot be mounted at {place}: where tasks run as another user than the server, "
                "storages are mounted at /mnt/NAME, and only where nothing is"
            )


def _is_empty_directory(path: str) -> bool:
    return stat.S_ISDIR(os.lstat(path).st_mode) and not os.listdir(path)  # noqa: PTH208


def _source(mount: Mount, owner: int) -> str:
    if mount.filesystem:
        raise ValueError(
            f"the process backend does not mount {mount.filesystem} (storage {mount.name}): an administrator can mount "
            "it on the machine and say where with data.mountedAt, or run the docker backend"
        )
    return local_source(mount, owner)


@cache
def unshare_program() -> str:
    """Return the program that gives a process mounts of its own, empty if there is none or it may not be used."""
    program = shutil.which("unshare")
    if program is None or shutil.which("mount") is None or os.geteuid() != 0:
        return ""
    probe = [program, "--mount", "--propagation", "private", "mount", "-o", "bind,ro", "/usr", "/usr"]
    ran = subprocess.run(probe, check=False, capture_output=True)  # noqa: S603  # our own words
    return program if ran.returncode == 0 else ""
