"""Storages on a machine: the directory behind a mount, and the variable with its path for tasks."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable
from typing import Final

from openpai.lifecycle.model import ExitReason, ExitReport
from openpai.ports.backend import Mount

_UNFIT: Final = re.compile(r"[^A-Z0-9_]")


def variable(mount: Mount) -> str:
    """Return the name of the variable with the path of a storage: PAI_STORAGE_TEAM_DATA for team-data."""
    return f"PAI_STORAGE_{_UNFIT.sub('_', mount.name.upper())}"


def claim_refusal(mounts: Iterable[Mount]) -> ExitReport | None:
    """Return a report if one of the storages can be mounted only by pods."""
    for mount in mounts:
        if mount.claim and not mount.source:
            message = f"storage {mount.name} is the volume claim {mount.claim}, which only pods of Kubernetes mount"
            return ExitReport(1, ExitReason.LAUNCH_REFUSED, message)
    return None


def local_source(mount: Mount, owner: int = -1) -> str:
    """Return the directory that a task sees, creating its user's folder if necessary; raise OSError if there is none.

    A folder that the server created, now or for an upload, becomes that of the user `owner` and closed to other users;
    -1 leaves it. A storage's own directory is never created: if it is missing, something is not mounted, and what a
    task wrote would fill the machine's own disk.
    """
    if not os.path.isdir(mount.source):  # noqa: PTH112  # done for each task
        raise FileNotFoundError(f"storage {mount.name}: there is no directory {mount.source} on this machine")
    if not mount.folder:
        return mount.source
    folder = os.path.join(mount.source, mount.folder)  # noqa: PTH118
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)  # noqa: PTH102
    if not stat.S_ISDIR(os.lstat(folder).st_mode):
        raise NotADirectoryError(f"storage {mount.name}: {folder} is not a directory")
    if owner != -1:
        _give_to(folder, owner)
    return folder


def _give_to(folder: str, owner: int) -> None:
    # The directory that was checked is changed, whatever has that name meanwhile.
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(file).st_uid == os.geteuid():
            os.fchmod(file, 0o700)
            os.fchown(file, owner, -1)
    finally:
        os.close(file)
