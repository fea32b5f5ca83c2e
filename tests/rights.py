"""What a server sees that is not root, also where the tests are."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

_NOBODY = 65534


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let nobody into `path` while the context lasts, this process included, whatever rights it has."""
    mode, user = path.stat().st_mode, os.geteuid()
    path.chmod(0)
    if user == 0:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
        path.chmod(mode)


@contextlib.contextmanager
def open_directory() -> Iterator[Path]:
    """Give a directory that is open to everybody, which those that pytest gives are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
