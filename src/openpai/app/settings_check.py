"""Checks of the settings of a server, before anything is opened: each value by itself, and those that exclude others.

Every fault is found at once, each as a sentence that names its options. Where the values came from is added to it for
those that are not on the command line: a line of the configuration file, or a variable of the environment.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from openpai.app.setting_values import value_fault
from openpai.app.settings import BackendName, Settings
from openpai.protocol.errors import BadConfiguration, PaiError
from openpai.protocol.wording import plural

_MACHINES: Final[tuple[BackendName, ...]] = ("process", "docker", "simulated")
_CONTAINERS: Final[tuple[BackendName, ...]] = ("docker", "kubernetes")
_BACKENDS_OF: Final[Mapping[str, tuple[BackendName, ...]]] = {
    "host_network": _CONTAINERS,
    "allow_setuid": _CONTAINERS,
    "allow_infiniband": _CONTAINERS,
    "task_subnets": ("docker",),
    "pids_per_task": ("docker",),
    "nodes": _MACHINES,
    "gpus_per_node": _MACHINES,
    "cpus_per_node": _MACHINES,
    "node_address": _MACHINES,
    "required_mounts": ("process", "docker"),
    "kubeconfig": ("kubernetes",),
    "kube_context": ("kubernetes",),
    "kube_namespace": ("kubernetes",),
    "placement": ("kubernetes",),
    "node_selector": ("kubernetes",),
    "tolerate": ("kubernetes",),
    "kube_gpus": ("kubernetes",),
    "kube_pull_secrets": ("kubernetes",),
    "kueue_queues": ("kubernetes",),
    "task_priority_class": ("kubernetes",),
    "lost_after": ("kubernetes",),
    "kube_checkpoint_claim": ("kubernetes",),
    "work_fetch_mb": ("kubernetes",),
    "rdma_resource": ("kubernetes",),
}
"""The backends for which an option has a meaning, where not for all."""


class Unfit(NamedTuple):
    """A fault of one value or of several together: what is wrong, with the options, and what to do."""

    message: str
    advice: str

    @property
    def sentence(self) -> str:
        """Return both as one sentence."""
        return f"{self.message}; {self.advice}"


def check(settings: Settings, origins: Mapping[str, str] | None = None) -> None:
    """Raise Refused, with every fault, for invalid settings and for those that exclude each other."""
    found = [
        fault._replace(message=fault.message + origins_in(fault.sentence, settings, origins or {}))
        for fault in faults(settings)
    ]
    if len(found) == 1:
        raise BadConfiguration(*found[0])
    if found:
        message = f"the settings have {plural(len(found), 'fault')}:\n" + "\n".join(one.sentence for one in found)
        raise BadConfiguration(message, "`pai admin config` explains every setting")


def origins_in(text: str, settings: Settings, origins: Mapping[str, str]) -> str:
    """Return the origins, in parentheses, of the settings that a text names, or whose file or directory it names."""
    named = [key for key in origins if re.search(rf"--{key}(?![a-z0-9-])", text) or _is_path_in(text, settings, key)]
    return f" ({'; '.join(f'{key}: {origins[key]}' for key in named)})" if named else ""


def add_origins(error: PaiError, settings: Settings, origins: Mapping[str, str]) -> None:
    """Add to an error of a starting server where the settings come from that it names."""
    error.message += origins_in(error.sentence, settings, origins)


def _is_path_in(text: str, settings: Settings, key: str) -> bool:
    value = getattr(settings, key.replace("-", "_"))
    return isinstance(value, Path) and str(value) in text


def faults(settings: Settings) -> Iterator[Unfit]:
    """Yield every fault of a server's settings."""
    sound = settings
    for field in fields(Settings):
        fault = value_fault(field.name, getattr(settings, field.name))
        if fault is not None:
            yield Unfit(f"--{field.name.replace('_', '-')} {fault.message}", fault.advice)
            # What else is wrong does not follow from a value that is wrong itself.
            default: dict[str, Any] = {field.name: field.default}
            sound = replace(sound, **default)
    yield from _together(sound)
    yield from _of_ssh(sound)
    yield from _of_task_users(sound)
    yield from _of_backend(sound)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _together(settings: Settings) -> Iterator[Unfit]:
    if settings.cluster is not None and settings.share is not None:
        yield Unfit("--cluster and --share both define the virtual clusters", "give one of them")
    if settings.api_only and (settings.cluster is not None or settings.share is not None):
        message = "--api-only leaves the virtual clusters to the server that runs the jobs"
        yield Unfit(message, "use --cluster or --share with that one, or `pai vc`")
    if settings.backend == "process" and not settings.allow_remote and not is_loopback(settings.host):
        rights = f"--backend process gives every job {settings.rights}"
        yield Unfit(
            f"{rights}, and --host {settings.host} lets other machines reach it",
            "use --backend docker, listen on 127.0.0.1, or add --allow-remote to permit it",
        )


def _of_ssh(settings: Settings) -> Iterator[Unfit]:
    if settings.ssh_port is None:
        if settings.ssh_host_key is not None:
            yield Unfit("--ssh-host-key has no effect without --ssh-port", "give both, or neither")
        return
    if settings.ssh_port == settings.port != 0:
        yield Unfit(f"--ssh-port and --port are both {settings.port}", "choose another port for one of them")
    if settings.api_only:
        message = "--ssh-port is for the server that runs the jobs, and --api-only leaves them to another one"
        yield Unfit(message, "give --ssh-port to that one")


def _of_task_users(settings: Settings) -> Iterator[Unfit]:
    if not settings.has_task_users:
        return
    option = "--task-user" if settings.task_user is not None else "--task-uids"
    if settings.task_user is not None and settings.task_uids is not None:
        yield Unfit("--task-user runs all tasks as one user, and --task-uids as a user for each owner", "give one")
    if settings.backend != "process":
        message = f"{option} is for the process backend, and --backend is {settings.backend}"
        yield Unfit(message, f"remove {option}: the image defines the user of its tasks")
    elif os.geteuid() != 0:
        message = f"only a server that is root can run tasks as {settings.task_user or 'other users'}"
        yield Unfit(message, f"remove {option}, or start the server as root")


def _of_backend(settings: Settings) -> Iterator[Unfit]:
    defaults = {field.name: field.default for field in fields(settings)}
    for name, backends in _BACKENDS_OF.items():
        if settings.backend not in backends and getattr(settings, name) != defaults[name]:
            given, whose = f"--{name.replace('_', '-')}", " or ".join(backends)
            message = f"{given} is for the {whose} backend, and --backend is {settings.backend}"
            yield Unfit(message, f"remove it, or use --backend {whose}")
    if settings.host_network and settings.task_subnets is not None:
        yield Unfit("--task-subnets has no effect with --host-network", "give one of them")
    subnets, address = settings.task_network, settings.node_address
    if subnets is not None and address and ipaddress.ip_address(address) in subnets:
        message = f"--node-address {address} is inside --task-subnets {subnets}"
        yield Unfit(message, "choose a range that is not in use")
