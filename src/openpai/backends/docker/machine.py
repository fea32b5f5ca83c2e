"""Describes the Engine's machine as one node, or as several that share it, and how much a container has written."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openpai.backends.docker.engine import Engine, EngineError
from openpai.backends.host.machine import cpus_offered, find_gpus
from openpai.ports.backend import NodeSeen
from openpai.protocol.errors import Unavailable
from openpai.system.directory_size import taken_by


@dataclass(frozen=True, slots=True)
class Found:
    """The nodes, and the properties of their machine that matter for containers."""

    nodes: tuple[NodeSeen, ...]
    cpus: int
    has_nvidia: bool
    security: tuple[str, ...] = ()
    """The security options that the Engine reports."""
    bounds_layers: bool = False
    """Whether the Engine can limit how much a container writes to its own layer."""


async def machine_of(
    engine: Engine, nodes: int, gpus_per_node: int | None, cpus_per_node: int | None, address: str
) -> Found:
    """Return the Engine's machine. `gpus_per_node` replaces the driver's number; more than it has are only numbers."""
    info = await engine.info()
    driven = await find_gpus()
    gpus = driven.total if gpus_per_node is None else gpus_per_node
    # Fewer than exist leaves some to others; more than exist is for trying things out.
    are_real = 0 < gpus <= driven.total
    name, cpus, memory_mb = str(info["Name"]), int(info["NCPU"]), int(info["MemTotal"]) >> 20
    found = tuple(
        NodeSeen(
            name=name if nodes == 1 else f"{name}-{index}",
            address=address,
            cpus=cpus_offered(cpus, cpus_per_node),
            memory_mb=memory_mb,
            gpus=gpus,
            gpu_model=driven.model if are_real else "virtual" * bool(gpus),
        )
        for index in range(nodes)
    )
    mountinfo = await asyncio.to_thread(Path("/proc/self/mountinfo").read_text, errors="replace")
    security = tuple(info.get("SecurityOptions") or ())
    return Found(found, cpus, are_real, security, bounds_layers(info, mountinfo))


def connect(url: str | None) -> Engine:
    """Return a connection to an Engine; None finds the one of this machine. Raises Unavailable if there is none."""
    try:
        return Engine(url)
    except (ValueError, AssertionError) as error:
        raise unavailable(url, str(error) or "no Engine was found") from error


def unavailable(url: str | None, message: str) -> Unavailable:
    """Return the error for an Engine that cannot be used."""
    advice = "start Docker or Podman, or name it with --docker-url or DOCKER_HOST"
    if "Permission denied" in message:
        advice = "let the server's user use its socket: sudo usermod --append --groups docker USER, and log in again"
    return Unavailable(f"the container Engine{f' at {url}' if url else ''} cannot be used: {message}", advice)


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
