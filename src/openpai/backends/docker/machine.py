"""Describes the Engine's machine as one node, or as several that share it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from openpai.backends.docker.engine import Engine
from openpai.backends.docker.writing import bounds_layers
from openpai.backends.host.machine import Gpus, amd_gpus, cpus_offered, find_gpus
from openpai.ports.backend import NodeSeen
from openpai.protocol.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Found:
    """The nodes, and the properties of their machine that matter for containers."""

    nodes: tuple[NodeSeen, ...]
    cpus: int
    has_nvidia: bool
    has_amd: bool
    gpus: Gpus
    """The devices that the driver lists."""
    security: tuple[str, ...] = ()
    """The security options that the Engine reports."""
    bounds_layers: bool = False
    """Whether the Engine can limit how much a container writes to its own layer."""


async def machine_of(
    engine: Engine, nodes: int, gpus_per_node: int | None, cpus_per_node: int | None, address: str
) -> Found:
    """Return the Engine's machine. `gpus_per_node` replaces the driver's number; more than it has are only numbers."""
    info = await engine.info()
    driven = await find_gpus() or amd_gpus()
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
    is_amd = bool(driven.files)
    return Found(
        found, cpus, are_real and not is_amd, are_real and is_amd, driven, security, bounds_layers(info, mountinfo)
    )


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
