"""Checks this machine: its disk, its clock, and the directories that must be mounted. Plain blocking functions."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from openpai.backends.host.findings import Finding
from openpai.system.disk_space import scarce_below, space_of
from openpai.system.time_service import BUILT, is_synchronized

DISK, CLOCK = "disk", "clock"
FILES_LEAST: Final = 1000
"""How many files must fit on the disk of working directories."""
JUMP_S: Final = 5.0
"""By how much the clock must have been set to be worth a word."""
JUMP_KEPT_S: Final = 600.0
"""How long that word stays."""
_GB: Final = 1 << 30


def disk(root: str) -> list[Finding]:
    """Return whether tasks can write below `root`: it is tried."""
    try:
        with tempfile.TemporaryFile(dir=root, prefix=".check-") as file:
            file.write(b"1")
            file.flush()
        space, files = space_of(root), os.statvfs(root)
    except OSError as error:
        return [Finding(DISK, "failed", f"nothing can be written below {root}: {error.strerror or error}")]
    if space.free < (least := scarce_below(space.total)):
        return [Finding(DISK, "failed", f"less than {least / _GB:.2g} GiB is free for working directories, at {root}")]
    if files.f_files and files.f_favail < FILES_LEAST:
        return [Finding(DISK, "failed", f"fewer than {FILES_LEAST} more files fit on the disk of {root}")]
    return [Finding(DISK)]


def mounted(path: str, mountinfo: str = "/proc/self/mountinfo") -> list[Finding]:
    """Return whether a directory is the place of a mount that answers."""
    name = f"mount {path}"
    try:
        # Not `os.path.ismount`, which does not see a directory that is bound to another of the same file system.
        places = {_plain(line.split(" ")[4]) for line in Path(mountinfo).read_text(errors="replace").splitlines()}
        if path not in places:
            return [Finding(name, "failed", "nothing is mounted there")]
        os.statvfs(path)
    except OSError as error:
        return [Finding(name, "failed", f"what is mounted there cannot be used: {error.strerror or error}")]
    return [Finding(name)]


def _plain(escaped: str) -> str:
    """Return a path as it is, of which the kernel writes spaces and the like as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), escaped)


def storage(check: str, directory: str) -> list[Finding]:
    """Return whether the directory of a storage is there; without it only the tasks that use it cannot start."""
    try:
        os.listdir(directory)  # noqa: PTH208  a mount that is stale has a directory, too
    except PermissionError:
        return [Finding(check)]
    except OSError as error:
        message = f"{directory} cannot be used: {error.strerror or error}; tasks with this storage cannot start here"
        return [Finding(check, "warning", message)]
    return [Finding(check)]


class ClockCheck:
    """Looks at the clock of this machine: its date, its time service, and whether somebody set it."""

    def __init__(
        self,
        wall_s: Callable[[], float] = time.time,
        steady_s: Callable[[], float] = time.monotonic,
        is_set: Callable[[], bool] = is_synchronized,
    ) -> None:
        self._wall_s, self._steady_s, self._is_set = wall_s, steady_s, is_set
        self._ahead_s = wall_s() - steady_s()
        self._jumped: tuple[float, float] | None = None
        """When it was set last, by the steady clock, and by how much."""

    def look(self) -> list[Finding]:
        """Return what is found now."""
        wall_s, steady_s = self._wall_s(), self._steady_s()
        if abs(by_s := wall_s - steady_s - self._ahead_s) >= JUMP_S:
            self._jumped = steady_s, by_s
        # A service that corrects it slowly is no jump.
        self._ahead_s = wall_s - steady_s
        if (shown := datetime.fromtimestamp(wall_s, UTC)) < BUILT:
            return [Finding(CLOCK, "failed", f"it shows {shown:%Y-%m-%d}: certificates and logins depend on it")]
        if self._jumped is not None and steady_s - self._jumped[0] < JUMP_KEPT_S:
            at_s, by_s = self._jumped
            when = datetime.fromtimestamp(wall_s - (steady_s - at_s), UTC)
            way = "ahead" if by_s > 0 else "back"
            return [Finding(CLOCK, "warning", f"it was set {way} by {abs(by_s):.0f} s at {when:%H:%M} UTC")]
        if not self._is_set():
            return [Finding(CLOCK, "warning", "no time service sets it: install chrony, or timedatectl set-ntp true")]
        return [Finding(CLOCK)]
