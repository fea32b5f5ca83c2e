"""Shares the host lists of large jobs: each is written once, and every task gets a hard link to the file.

The list of ten thousand tasks has 700 KB, and ten thousand copies of it would take 7 GB of disk. The first link is in a
directory that only the server can enter; a task that changes its file changes it only for its own job.
The file is removed with its last link, so no clean-up after a job is needed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from pathlib import Path
from typing import Final

HOSTS_DIRECTORY: Final = ".hosts"
SHARED_BYTES_MIN: Final = 8 << 10
"""A shorter list is written as fast as it is linked."""
LISTS_MAX: Final = 8
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class SharedHosts:
    """The lists of the jobs whose tasks were launched last, as files below the root of task directories."""

    def __init__(self, root: str) -> None:
        self._directory = f"{root}/{HOSTS_DIRECTORY}"
        self._lists: list[tuple[str, str]] = []
        self._made = 0
        self._turn = threading.Lock()
        # From an earlier server, whose tasks keep their links.
        shutil.rmtree(self._directory, ignore_errors=True)

    def file_of(self, hosts: str) -> str | None:
        """Return a file with this list; None for a short one, or if it cannot be written."""
        if len(hosts) < SHARED_BYTES_MIN:
            return None
        with self._turn:
            for known, path in self._lists:
                # All launches of a job attempt have the same object, and long texts are slow to compare.
                if known is hosts:
                    return path
            try:
                path = self._write(hosts)
            except OSError:
                return None
            self._lists.append((hosts, path))
            for _, old in self._lists[:-LISTS_MAX]:
                _remove(old)
            del self._lists[:-LISTS_MAX]
        return path

    def _write(self, hosts: str) -> str:
        Path(self._directory).mkdir(mode=0o700, exist_ok=True)
        self._made += 1
        path = f"{self._directory}/{self._made}"
        try:
            with os.fdopen(os.open(path, _NEW, 0o600), "w") as file:
                file.write(hosts)
        except OSError:
            _remove(path)
            raise
        return path


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        Path(path).unlink()
