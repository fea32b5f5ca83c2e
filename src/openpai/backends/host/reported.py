"""Reads what a task reported about its progress, from a file that the task owns."""

from __future__ import annotations

import os
import stat
from typing import Final

from openpai.backends.host.directory import TaskDirectory
from openpai.runtime.progress import PROGRESS_FILE, TAIL_BYTES, Progress, read_progress

_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def reported(directory: TaskDirectory) -> tuple[Progress, int] | None:
    """Return what a task reported last, and when, in ms; None for no report, and for anything but a plain file."""
    try:
        file = os.open(f"{directory.path}/{PROGRESS_FILE}", _FLAGS)
    except OSError:
        return None
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            return None
        text = os.pread(file, TAIL_BYTES, max(0, about.st_size - TAIL_BYTES)).decode(errors="replace")
    except OSError:
        return None
    finally:
        os.close(file)
    found = read_progress(text)
    return None if found is None else (found, about.st_mtime_ns // 1_000_000)
