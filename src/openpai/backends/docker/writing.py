"""Measures what a container has written outside its task directory, and finds out whether an Engine limits that."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openpai.backends.docker.engine import Engine, EngineError
from openpai.system.directory_size import taken_by


async def taken_by_container(engine: Engine, name: str, most: int) -> int:
    """Return how many bytes a container uses in its own layer and its volumes; counting stops beyond `most`.

    What cannot be read counts as zero: a container that is gone, or volumes that only root may enter.
    """
    try:
        written = await engine.written(name)
    except EngineError:
        return 0
    taken = written.layer_bytes
    for volume in written.volumes:
        if taken <= most:
            taken += await asyncio.to_thread(_taken_by_volume, volume, most - taken)
    return taken


def bounds_layers(info: Mapping[str, Any], mountinfo: str) -> bool:
    """Return whether an Engine with this description can limit the size of a container's own layer.

    `mountinfo` is the text of /proc/self/mountinfo. An Engine that cannot refuses containers with such a limit.
    """
    driver = str(info.get("Driver"))
    if driver in ("btrfs", "zfs"):
        return True
    backing = {str(row[1]) for row in info.get("DriverStatus") or () if row[0] == "Backing Filesystem"}
    return driver == "overlay2" and backing == {"xfs"} and _has_project_quota(str(info["DockerRootDir"]), mountinfo)


def _has_project_quota(path: str, mountinfo: str) -> bool:
    """Return whether the file system of `path` is mounted with project quotas."""
    found, options = "", ""
    for fields in (line.split(" ") for line in mountinfo.splitlines()):
        place = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
        if len(place) >= len(found) and Path(path).is_relative_to(place):
            found, options = place, fields[-1]
    return not {"prjquota", "pquota"}.isdisjoint(options.split(","))


def _taken_by_volume(path: str, most: int) -> int:
    try:
        # A network storage is a volume, too, with a file system of its own.
        is_mounted = Path(path).lstat().st_dev != os.lstat(os.path.dirname(path)).st_dev  # noqa: PTH120
    except OSError:
        return 0
    return 0 if is_mounted else taken_by(path, most)
