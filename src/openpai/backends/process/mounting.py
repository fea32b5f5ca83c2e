"""How a process finds its storages: links in its working directory, and where we may a mount of its own.

A link needs no rights. As an administrator on Linux the task also gets a mount namespace of its own, in which each
storage is mounted where its job wants it, and read-only ones are read-only by whatever path they are reached. The
program that mounts becomes the task's wrapper, so nothing more runs afterwards and what it mounted goes with the task.
"""

from __future__ import annotations

import contextlib
import os
import shutil
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
_FAILED: Final = ExitReason.LAUNCH_FAILED.value
_BINDER: Final = rf"""dir=$1 count=$2
shift 2
fail() {{
    told=$(printf %s "$1" | tr '\n' ' ')
    set -C
    {{ echo fenced >"$dir/{TICKET_FILE}"; }} 2>/dev/null
    {{ printf 'code 1\nreason {_FAILED}\nmessage %s\nend\n' "$told" >"$dir/{EXIT_FILE}"; }} 2>/dev/null
    exit 1
}}
while [ "$count" -gt 0 ]; do
    [ -d "$3" ] || told=$(mkdir -p -- "$3" 2>&1) || fail "$told"
    told=$(mount -o "bind,$1" -- "$2" "$3" 2>&1) || fail "$told"
    shift 3
    count=$((count - 1))
done
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Mounted:
    """What a task's storages add to how it is started."""

    prefix: tuple[str, ...] = ()
    """What to put before the command that starts it."""
    environment: Mapping[str, str] = field(default_factory=dict)


def mount_all(mounts: Sequence[Mount], directory: str, work: str, shell: str) -> Mounted:
    """Link a task's storages into its working directory and return how it gets to see them where its job wants.

    Raise ValueError for what this backend cannot mount, and OSError for a directory that is not there.
    """
    if not mounts:
        return Mounted()
    sources = {mount: _source(mount) for mount in mounts}
    make_directory(f"{work}/{LINKS}")
    for mount, source in sources.items():
        with contextlib.suppress(FileExistsError):
            os.symlink(source, f"{work}/{LINKS}/{mount.name}")  # noqa: PTH211
    program = _unshare()
    if not program:
        return Mounted((), {variable(mount): f"{work}/{LINKS}/{mount.name}" for mount in mounts})
    binds: list[str] = []
    for mount, source in sources.items():
        mode = "ro" if mount.is_read_only else "rw"
        binds += [mode, source, mount.mount_path]
        if mount.is_read_only:
            binds += [mode, source, source]
    prefix = (program, "--mount", "--propagation", "private", shell, "-c", _BINDER, "binder", directory)
    return Mounted((*prefix, str(len(binds) // 3), *binds), {variable(mount): mount.mount_path for mount in mounts})


def _source(mount: Mount) -> str:
    if mount.filesystem:
        raise ValueError(
            f"the process backend does not mount {mount.filesystem} (storage {mount.name}): an administrator can mount "
            "it on the machine and say where with data.mountedAt, or run the docker backend"
        )
    return local_source(mount)


def has_own_mounts() -> bool:
    """Return whether tasks get mounts of their own on this machine, and not only links."""
    return bool(_unshare())


@cache
def _unshare() -> str:
    """Return the program that gives a process mounts of its own, empty where there is none or we may not."""
    program = shutil.which("unshare")
    if program is None or shutil.which("mount") is None or os.geteuid() != 0:
        return ""
    probe = [program, "--mount", "--propagation", "private", "mount", "-o", "bind,ro", "/usr", "/usr"]
    asked = subprocess.run(probe, check=False, capture_output=True)  # noqa: S603  # our own words
    return program if asked.returncode == 0 else ""
