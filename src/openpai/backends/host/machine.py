"""Describes this machine: its processors, memory and GPUs, and which ports are free."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from openpai.backends.host.amd_use import AMD_ROOT, amd_cards
from openpai.lifecycle.model import ExitReason, ExitReport
from openpai.ports.backend import NodeSeen

log: Final = structlog.get_logger(__name__)

LOOPBACK: Final = "127.0.0.1"
"""The address at which tasks reach each other, because all of them run on this machine."""

CPUS_SHARED: Final = 8
"""The processors that a machine with fewer offers: on a laptop the tasks of a small job share them."""
_GPU_LINE: Final = re.compile(r"^GPU (\d+): (.*?)(?: \(UUID: ([^)]*)\))?$")
_MIG_LINE: Final = re.compile(r"^\s+(MIG \S+)\s+Device\s+\d+: \(UUID: ([^)]*)\)$")
_GPU_PATIENCE_S: Final = 20.0


class Gpus(NamedTuple):
    """The devices that tasks get: GPUs, and of a GPU that is divided its MIG slices."""

    total: int
    model: str = ""
    """The model of the first, with its slices where all devices are slices of one size."""
    names: tuple[str, ...] = ()
    """The driver's name of each device; empty if no GPU is divided, as their numbers are enough then."""
    files: tuple[str, ...] = ()
    """The device file of each of AMD's GPUs, which containers are given; of NVIDIA's the Engine knows them."""

    def visible(self, devices: Sequence[int]) -> str:
        """Return these devices as NVIDIA_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES name them."""
        return ",".join(self.name(device) for device in devices)

    def name(self, device: int) -> str:
        """Return a device's name, or its number if it has none."""
        return self.names[device] if device < len(self.names) else str(device)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return self.total > 0


NO_GPUS: Final = Gpus(0)
VIRTUAL: Final = "virtual"
"""The model of devices that are only numbers."""


def cpus_offered(cpus: int, wanted: int | None) -> int:
    """Return how many processors a node offers: as many as configured, else those it has, with a minimum."""
    return max(cpus, CPUS_SHARED) if wanted is None else wanted


async def this_machine(
    nodes: int = 1, gpus_per_node: int | None = None, cpus_per_node: int | None = None, address: str = LOOPBACK
) -> tuple[tuple[NodeSeen, ...], Gpus]:
    """Return this machine as one node, or as several that share it, and its GPUs.

    Each of several nodes has all processors and memory: they are for trials, not for fair sharing.
    `gpus_per_node` replaces the driver's number, `cpus_per_node` the system's.
    """
    gpus = (
        (await find_gpus() or amd_gpus())
        if gpus_per_node is None
        else Gpus(gpus_per_node, VIRTUAL if gpus_per_node else "")
    )
    host = socket.gethostname()
    seen = tuple(
        NodeSeen(
            name=host if nodes == 1 else f"{host}-{index}",
            address=address,
            cpus=cpus_offered(len(os.sched_getaffinity(0)), cpus_per_node),
            memory_mb=_memory_mb(),
            gpus=gpus.total,
            gpu_model=gpus.model,
        )
        for index in range(nodes)
    )
    return seen, gpus


def amd_gpus(root: Path = AMD_ROOT) -> Gpus:
    """Return AMD's GPUs, which programs choose among by CUDA_VISIBLE_DEVICES, too, as HIP reads it."""
    cards = amd_cards(root)
    return Gpus(len(cards), _model(cards[0]), files=tuple(map(_render_node, cards))) if cards else NO_GPUS


def _render_node(card: Path) -> str:
    """Return the file by which programs compute on a card; a driver without one leaves the card to no container."""
    return next((f"/dev/dri/{node.name}" for node in sorted(card.glob("drm/renderD[0-9]*"))), "")


def _model(card: Path) -> str:
    with contextlib.suppress(OSError):
        return (card / "product_name").read_text(errors="replace").strip()[:100] or "AMD"
    return "AMD"


async def find_gpus() -> Gpus:
    """Return the GPUs that the NVIDIA driver lists; none, with a log message, if it does not answer."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return Gpus(0)
    run = await asyncio.create_subprocess_exec(
        program,
        "-L",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(_GPU_PATIENCE_S):
            message, _ = await run.communicate()
    except TimeoutError:
        run.kill()
        await run.wait()
        message = f"no answer within {_GPU_PATIENCE_S:g} s".encode()
    found = parse_gpus(message.decode(errors="replace"))
    if not found.total:
        # Without this message a broken driver would look like a machine without GPUs.
        log.warning(
            "jobs get no GPUs, as nvidia-smi lists none", message=message.decode(errors="replace").strip()[:500]
        )
    return found


def parse_gpus(listing: str) -> Gpus:
    """Return the GPUs in the output of `nvidia-smi -L`."""
    models: dict[int, str] = {}
    whole: dict[int, str] = {}
    slices: dict[int, list[tuple[str, str]]] = {}
    number = -1
    for line in listing.splitlines():
        if (gpu := _GPU_LINE.match(line)) is not None:
            number = int(gpu[1])
            models[number], whole[number] = gpu[2], gpu[3] or str(number)
        elif (part := _MIG_LINE.match(line)) is not None and number >= 0:
            slices.setdefault(number, []).append((part[1], part[2]))
    if not models:
        return Gpus(0)
    first = models[min(models)]
    if not slices:
        return Gpus(len(models), first)
    found = [each for number in sorted(models) for each in slices.get(number, [("", whole[number])])]
    sizes = {(models[number], size) for number in models for size, _ in slices.get(number, [("", "")])}
    if len(sizes) > 1:
        log.warning("this machine has devices of different sizes, which count alike", sizes=sorted(sizes))
    model = f"{first} {found[0][0]}" if len(sizes) == 1 else first
    return Gpus(len(found), model, tuple(name for _, name in found))


def port_taken(ports: Iterable[int]) -> ExitReport | None:
    """Return a report if another program uses one of the ports. Costs about ten microseconds a port."""
    for port in ports:
        with socket.socket() as probe:
            # A port in TIME_WAIT is free for a server, so also for the task's.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                return ExitReport(1, ExitReason.PORT_TAKEN, f"port {port} is used by a program that is not a task")
    return None


def outward_address() -> str:
    """Return the address that this machine uses towards others; loopback if it reaches none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: the system only chooses the address it would use.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return LOOPBACK
        return str(probe.getsockname()[0])


def _memory_mb() -> int:
    listing = Path("/proc/meminfo").read_text()
    total = re.search(r"^MemTotal:\s+(\d+) kB", listing, re.MULTILINE)
    return int(total[1]) // 1024 if total else 0
