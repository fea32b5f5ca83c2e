"""Describes a task attempt as a container, and derives the end of the attempt from the end of its container.

Plain data in, plain data out. The container runs the platform's wrapper from the task directory, which is mounted
into it, so its logs and its exit report are files of this machine and survive container, Engine and server.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from openpai.backends.docker.engine import ContainerState
from openpai.backends.docker.security import HOST_NETWORK, Allowed, amd_devices, infiniband, restrictions
from openpai.backends.host.directory import WORK_DIRECTORY
from openpai.backends.host.machine import NO_GPUS, Gpus
from openpai.backends.host.mounts import variable
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from openpai.ports.backend import LaunchTask, Mount
from openpai.runtime.notice import CHECKPOINT_VARIABLE, NOTICE_FILE, NOTICE_VARIABLE
from openpai.runtime.outputs import OUTPUTS_VARIABLE, find_words
from openpai.runtime.progress import PROGRESS_FILE, PROGRESS_VARIABLE
from openpai.runtime.script import HOSTS_FILE
from openpai.runtime.unpacking import CODE_FILE, CODE_VARIABLE

MOUNT: Final = "/usr/local/pai"
WORK: Final = f"{MOUNT}/{WORK_DIRECTORY}"
CODE: Final = f"/usr/local/pai-code/{CODE_FILE}"
LOGS: Final = "logs"
CHECKPOINTS: Final = "/usr/local/pai-checkpoints"
WRAPPER_FILE: Final = "wrapper.sh"
ROOT_LABEL: Final = "openpai.root"
_ATTEMPT_LABEL: Final = "openpai.attempt"
_GRANT_LABEL: Final = "openpai.grant"
_DEVICES_LABEL: Final = "openpai.devices"
_NODE_LABEL: Final = "openpai.node"
_PEOPLE_PREFIX: Final = "openpai."
_UNFIT_FOR_NAMES: Final = re.compile(r"[^a-zA-Z0-9_.-]")
_KILLED: Final = 137
_NEVER_BEGAN: Final = (
    "the container ended with exit code {code} before its task began: its image is made for another kind of "
    "processor, or its /bin/sh is no shell"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings that are the same for every container of this backend."""

    cpus: int
    """The processors of the machine: the Engine refuses containers that ask for more."""
    has_nvidia: bool
    """Whether devices are real NVIDIA GPUs, which are requested from the Engine."""
    scope: str
    """Value of the label that distinguishes this platform's containers from another's on the same Engine."""
    allowed: Allowed = field(default_factory=Allowed)
    layer_bytes_max: int = 0
    """The limit on a container's own layer, where the Engine's driver can limit it; 0 for no limit."""
    gpus: Gpus = NO_GPUS
    """The devices of the machine, by name where GPUs are divided."""
    keeps_work: bool = False
    """Whether the files that tasks leave in their working directory are kept."""
    has_amd: bool = False
    """Whether devices are real GPUs of AMD, whose files are passed into containers."""


def name_of(key: AttemptKey) -> str:
    """Return the container's name: the same for every launch of the attempt, so that the second one fails."""
    path = key.path()
    fit = _UNFIT_FOR_NAMES.sub("_", path)
    if fit != path:
        fit += f".{hashlib.sha256(path.encode()).hexdigest()[:12]}"
    return f"pai.{fit}"


class Places(NamedTuple):
    """The directories of the machine that a task attempt sees."""

    task: str
    logs: str
    checkpoints: str


def config_of(launch: LaunchTask, places: Places, limits: Limits, network: str) -> dict[str, Any]:
    """Return the request to create the container in `network`. Raise ValueError for devices that do not exist."""
    host: dict[str, Any] = {
        **restrictions(limits.allowed),
        "NetworkMode": network,
        "Mounts": [
            _bind(places.task, MOUNT),
            _bind(places.logs, f"{MOUNT}/{LOGS}"),
            _bind(places.checkpoints, CHECKPOINTS),
            # Read-only, because the jobs of all users with this code share the file.
            *([_bind(launch.code, CODE) | {"ReadOnly": True}] if launch.code else []),
            *(_storage(mount) for mount in launch.mounts),
        ],
        "NanoCpus": min(launch.cpus, limits.cpus) * 10**9,
        "Memory": launch.memory_mb << 20,
        "MemorySwap": launch.memory_mb << 20,
        "ShmSize": launch.shm_mb << 20,
        "RestartPolicy": {"Name": "no"},
        # The wrapper writes the logs; the Engine would keep a second, unlimited copy.
        "LogConfig": {"Type": "none"},
    }
    if limits.layer_bytes_max:
        host["StorageOpt"] = {"size": str(limits.layer_bytes_max)}
    if limits.has_nvidia and launch.devices:
        wanted = [limits.gpus.name(device) for device in launch.devices]
        host["DeviceRequests"] = [{"Driver": "nvidia", "DeviceIDs": wanted, "Capabilities": [["gpu"]]}]
    if limits.has_amd and launch.devices:
        host |= amd_devices([limits.gpus.files[device] for device in launch.devices])
    if launch.infiniband:
        fabric = infiniband()
        host |= {**fabric, "Devices": [*host.get("Devices", ()), *fabric["Devices"]]}
    # The platform allocates ports of the machine, so a port has the same number inside and outside.
    ports = () if network == HOST_NETWORK else tuple(f"{port}/tcp" for port in launch.ports)
    host["PortBindings"] = {port: [{"HostPort": port.removesuffix("/tcp")}] for port in ports}
    grace = f"{launch.grace_s:g}"
    return {
        "Image": launch.image,
        "Entrypoint": ["/bin/sh"],
        "Cmd": [f"{MOUNT}/{WRAPPER_FILE}", MOUNT, f"{MOUNT}/{LOGS}", "", grace],
        "Env": [f"{name}={value}" for name, value in _environment(launch, limits).items()],
        "Labels": _labels(launch, limits.scope),
        "StopSignal": "SIGTERM",
        "ExposedPorts": {port: {} for port in ports},
        # An image's own health check would run as processes of the task.
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": host,
    }


class Owner(NamedTuple):
    """The attempt a container belongs to."""

    key: AttemptKey
    grant: int
    devices: tuple[int, ...]


def attempt_of(state: ContainerState) -> Owner | None:
    """Return the attempt a container belongs to; None if it is not one of this platform's."""
    try:
        key = AttemptKey.parse(state.labels[_ATTEMPT_LABEL])
        devices = tuple(int(device) for device in state.labels.get(_DEVICES_LABEL, "").split(",") if device)
        return Owner(key, int(state.labels.get(_GRANT_LABEL, "0")), devices)
    except (KeyError, ValueError):
        return None


def verdict(state: ContainerState, written: ExitReport | None, *, has_begun: bool, was_killed: bool) -> ExitReport:
    """Return how an attempt ended, from the state of its container and the wrapper's report, if there is one.

    The wrapper's report takes precedence: later events cannot change it. `has_begun` is whether the wrapper claimed its
    ticket.
    """
    code = written.code if written is not None else state.exit_code
    ended_at_ms = written.ended_at_ms if written is not None else state.ended_at_ms
    reason, message = ExitReason.EXITED, state.error
    # One process of many may be killed for memory and the task may go on; then that is no failure.
    if state.is_oom_killed and code != 0:
        reason, message = ExitReason.OOM_KILLED, "it used more memory than it asked for and was killed"
    elif written is not None:
        reason, message = written.reason, written.message
    elif code == _KILLED and was_killed:
        message = "killed: it had not ended within its grace period"
    elif code == _KILLED:
        reason, message = (
            ExitReason.LOST,
            "killed from outside without a report: by a user of the machine, or with the Engine",
        )
    elif not has_begun and not was_killed:
        # The Engine writes its reason to the container's own log, which is not kept.
        reason, message = ExitReason.LAUNCH_REFUSED, _NEVER_BEGAN.format(code=code)
    return ExitReport(code, reason, message, state.started_at_ms, ended_at_ms)


def _environment(launch: LaunchTask, limits: Limits) -> Mapping[str, str]:
    environment = {**launch.shared_env, **launch.env, **{variable(mount): mount.mount_path for mount in launch.mounts}}
    environment |= {NOTICE_VARIABLE: f"{MOUNT}/{NOTICE_FILE}", CHECKPOINT_VARIABLE: CHECKPOINTS}
    environment[PROGRESS_VARIABLE] = f"{MOUNT}/{PROGRESS_FILE}"
    if limits.keeps_work:
        environment |= {"PAI_WORK_DIR": WORK, OUTPUTS_VARIABLE: find_words(launch.outputs)}
    if launch.code:
        environment[CODE_VARIABLE] = CODE
    if launch.hosts:
        environment["PAI_HOSTS_FILE"] = f"{MOUNT}/{HOSTS_FILE}"
    if (limits.has_nvidia or limits.has_amd) and launch.devices:
        # Inside, only the granted devices exist and they are numbered from 0; slices go by their names there, too.
        inside = limits.gpus.visible(launch.devices) if limits.gpus.names else _numbers(len(launch.devices))
        environment["CUDA_VISIBLE_DEVICES"] = inside
        environment.pop("NVIDIA_VISIBLE_DEVICES", None)
    return environment


def _numbers(count: int) -> str:
    return ",".join(map(str, range(count)))


def _labels(launch: LaunchTask, scope: str) -> dict[str, str]:
    people = {f"{_PEOPLE_PREFIX}{name}": value for name, value in launch.labels.items()}
    return {
        **people,
        ROOT_LABEL: scope,
        _ATTEMPT_LABEL: launch.key.path(),
        _GRANT_LABEL: str(launch.grant),
        _NODE_LABEL: launch.node,
        _DEVICES_LABEL: ",".join(map(str, launch.devices)),
    }


def _bind(source: str, target: str) -> dict[str, str]:
    return {"Type": "bind", "Source": source, "Target": target}


def _storage(mount: Mount) -> dict[str, Any]:
    """Return a storage as the Engine mounts it: a directory of the machine, or an anonymous volume on the network.

    The Engine removes such a volume together with its container, and with it the credentials in its options.
    """
    if not mount.filesystem:
        source = f"{mount.source}/{mount.folder}" if mount.folder else mount.source
        return _bind(source, mount.mount_path) | {"ReadOnly": mount.is_read_only}
    options = {"type": mount.filesystem, "o": mount.options, "device": mount.source}
    driver = {"Name": "local", "Options": options}
    return {
        "Type": "volume",
        "Target": mount.mount_path,
        "ReadOnly": mount.is_read_only,
        "VolumeOptions": {"NoCopy": True, "DriverConfig": driver},
    }
