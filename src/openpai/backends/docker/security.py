"""Restricts what a container may do, beyond which the administrator may allow more.

All capabilities are dropped and those that ordinary images need are added, so that a task cannot open raw sockets,
create device nodes, mount, or trace other tasks. The Engine's own seccomp profile stays in force.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PIDS_DEFAULT: Final = 8192
HOST_NETWORK: Final = "host"
PORTS_MAX: Final = 64
"""How many ports a container may publish: the Engine may run two processes for each, beyond any limit of the task."""

CAPABILITIES: Final[Mapping[str, str]] = {
    "AUDIT_WRITE": "sshd, as Red Hat and others build it, writes each login to the audit log or refuses it",
    "CHOWN": "package managers and tar give files to their owners",
    "DAC_OVERRIDE": "root writes to the files of an image's other users",
    "FOWNER": "package managers set modes and times of files that are not root's",
    "FSETID": "package managers install programs with a setgid bit, and write to them later",
    "KILL": "the platform's wrapper and supervisors such as sshd end processes of other users",
    "NET_BIND_SERVICE": "servers in the container's own network listen on ports below 1024",
    "SETGID": "apt, sshd, su and gosu take on the group of another user",
    "SETUID": "apt, sshd, su and gosu become another user",
    "SYS_CHROOT": "sshd shuts the part that speaks to strangers into an empty directory",
}
"""The capabilities that containers have, and what needs each of them in ordinary images."""

INFINIBAND: Final = Path("/dev/infiniband")
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
    # On the machine's own network a low port may be one of the machine's services.
    kept = sorted(name for name in CAPABILITIES if not (allowed.host_network and name == "NET_BIND_SERVICE"))
    return {
        "Privileged": False,
        "CapDrop": ["ALL"],
        "CapAdd": kept,
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
        "Devices": [{"PathOnHost": each, "PathInContainer": each, "CgroupPermissions": "rw"} for each in found],
        "Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}],
    }


def missing_protection(security_options: Iterable[str]) -> str:
    """Return which confinement an Engine reports to lack; empty if none."""
    seccomp = [option for option in security_options if option.startswith("name=seccomp")]
    if not seccomp:
        return "it filters no system calls (seccomp)"
    if "unconfined" in seccomp[0]:
        return "its seccomp profile lets every system call through"
    return ""
