"""Restricts what a container may do, beyond which the administrator may allow more.

All capabilities are dropped and those that ordinary images need are added, so that a task cannot open raw sockets,
create device nodes, mount, or trace other tasks. The Engine's own seccomp profile stays in force.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from openpai.backends.host.capabilities import kept_capabilities

PIDS_DEFAULT: Final = 8192
HOST_NETWORK: Final = "host"
PORTS_MAX: Final = 64
"""How many ports a container may publish: the Engine may run two processes for each, beyond any limit of the task."""

INFINIBAND: Final = Path("/dev/infiniband")
AMD_COMPUTE: Final = Path("/dev/kfd")
"""The file by which programs compute on AMD's GPUs, beside one of each GPU."""
_VERBS: Final = ("uverbs*", "rdma_cm")
"""The devices that programs use; the others manage the fabric."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """The options by which the administrator allows containers more."""

    host_network: bool = False
    """Whether containers use the machine's own network instead of one of their job's."""
    setuid: bool = False
    """Whether programs with a setuid bit, such as sudo, work."""
    infiniband: bool = False
    """Whether jobs that ask for InfiniBand get its devices and may lock memory without limit."""
    pids_max: int = PIDS_DEFAULT
    """How many processes and threads a container may have at a time."""


def restrictions(allowed: Allowed) -> dict[str, Any]:
    """Return the part of a HostConfig that restricts a container."""
    return {
        "Privileged": False,
        "CapDrop": ["ALL"],
        "CapAdd": kept_capabilities(is_on_host_network=allowed.host_network),
        "SecurityOpt": [] if allowed.setuid else ["no-new-privileges"],
        "PidsLimit": allowed.pids_max,
        "IpcMode": "private",
        "CgroupnsMode": "private",
    }


def infiniband(devices: Path = INFINIBAND) -> dict[str, Any]:
    """Return the part of a HostConfig for the use of InfiniBand. Raise ValueError if the machine has none."""
    found = sorted(str(device) for pattern in _VERBS for device in devices.glob(pattern))
    if not found:
        raise ValueError(f"the job asks for InfiniBand and this machine has none: {devices} has no devices")
    return {
        "Devices": _passed(found),
        "Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}],
    }


def amd_devices(files: Sequence[str], compute: Path = AMD_COMPUTE) -> dict[str, Any]:
    """Return the part of a HostConfig for these GPUs of AMD alone, with the groups that may open their files.

    Raises ValueError if one has no file: then its driver cannot compute.
    """
    if not all(files) or not compute.exists():
        raise ValueError(f"a GPU of this machine cannot compute: {compute} or its renderD file in /dev/dri is missing")
    passed = [compute, *map(Path, files)]
    groups = {each.stat().st_gid for each in passed if each.exists()} - {0}
    return {"Devices": _passed(map(str, passed)), "GroupAdd": [str(group) for group in sorted(groups)]}


def _passed(files: Iterable[str]) -> list[dict[str, str]]:
    return [{"PathOnHost": each, "PathInContainer": each, "CgroupPermissions": "rw"} for each in files]


def missing_protection(security_options: Iterable[str]) -> str:
    """Return which confinement an Engine reports to lack; empty if none."""
    seccomp = [option for option in security_options if option.startswith("name=seccomp")]
    if not seccomp:
        return "it filters no system calls (seccomp)"
    if "unconfined" in seccomp[0]:
        return "its seccomp profile lets every system call through"
    return ""
