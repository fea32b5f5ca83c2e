"""The environment a task starts with: its own name, its peers, and where they listen.

Everything is decided at placement, before any task starts, so a task needs no barrier to learn its peers' addresses.
Names of variables contain the task role's name as in the job file. In variables about the network, OpenPAI's runtime
used the name in lower case with only its letters and digits; where the two differ, both variables are set.

Every program that a task starts gets a copy of its environment, and a shell needs 80 ms to read one of a megabyte,
which adds up with thousands of tasks. All variables about single peers are set while they fit into `PEERS_BYTES_MAX`,
which is enough for about 500 tasks with four ports each. In a larger job only the first are set, from index 0 of every
role upwards, within `FIRST_PEERS_BYTES`. A list that would be too long as one string (128 KiB on Linux) is left out.
The complete list is always in the file that `PAI_HOSTS_FILE` names, one line per task: role, index, address, then
`label=port,port` for each label.
"""

from __future__ import annotations

import re
from collections.abc import ItemsView, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from openpai.protocol.job import Resources, TaskRole
from openpai.protocol.peer_variables import FIRST_PEERS_BYTES, PEERS_BYTES_MAX

BYTES_MAX: Final = 768 << 10
STRING_BYTES_MAX: Final = 128 << 10
_RESERVED_BYTES: Final = 64 << 10
"""Bytes for a task's own variables and for those that a node adds (PATH, HOME, ...)."""
_POINTER_BYTES: Final = 8

PREFIXES: Final = ("PAI_", "FC_", "CUDA_", "NVIDIA_")
"""What the names of all variables begin with that are worked out for a task."""

SSH_LABEL: Final = "ssh"
HTTP_LABEL: Final = "http"


@dataclass(frozen=True, slots=True)
class Peer:
    """Where one task of the job runs and which ports are its own, by label."""

    role: str
    index: int
    host: str
    ports: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class JobView:
    """The values of a job that its tasks get; every task has a peer entry, itself included."""

    user: str
    job_name: str
    virtual_cluster: str
    roles: tuple[TaskRole, ...]
    peers: tuple[Peer, ...]
    grace_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Self:
    """The task that the environment is for: its name, its attempt, and its devices."""

    role: str
    index: int
    job_attempt: int = 0
    task_attempt: int = 0
    devices: tuple[int, ...] = ()


def port_labels(resources: Resources) -> dict[str, int]:
    """Return how many ports each label names; `ssh` and `http` always exist with at least one."""
    counts = {label: count for label, count in resources.ports.items() if count > 0}
    return {**counts, **{label: counts.get(label, 1) for label in (SSH_LABEL, HTTP_LABEL)}}


class TaskVariables(Mapping[str, str]):
    """The variables of one task, worked out when one is read: thousands of tasks wait for their turn to be started."""

    __slots__ = ("_environment", "_found", "_more", "_task")

    def __init__(self, environment: JobEnvironment, task: Self, more: Mapping[str, str]) -> None:
        """`more` are variables beside those of the job. Raise KeyError for a task that is not among the peers."""
        environment.require(task)
        self._environment = environment
        self._task = task
        self._more = more
        self._found: dict[str, str] | None = None

    def __getitem__(self, name: str) -> str:
        return self._all()[name]

    def __contains__(self, name: object) -> bool:
        # A simulated cluster asks each task for two names that hardly any has.
        return name in self._more or (isinstance(name, str) and name.startswith(PREFIXES) and name in self._all())

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def items(self) -> ItemsView[str, str]:
        """Return the names with their values, in one go: a mapping would be asked for each of them."""
        return self._all().items()

    def _all(self) -> dict[str, str]:
        if self._found is None:
            self._found = {**self._environment.of(self._task), **self._more}
        return self._found


class JobEnvironment:
    """The environments of one job attempt's tasks; their common part is worked out once."""

    hosts: str
    """Content of the file that `PAI_HOSTS_FILE` names: the complete list of tasks, addresses and ports."""

    shared: Mapping[str, str]
    """Variables that are the same for every task; a task's own override them."""

    def __init__(self, view: JobView) -> None:
        self._peers = {(peer.role, peer.index): peer for peer in view.peers}
        self._spellings = _spellings(role.name for role in view.roles)
        # Index 0 of every role first, since these are usually the masters that other tasks connect to.
        about_peers: dict[tuple[str, int], dict[str, str]] = {}
        peers = (
            about_peers.setdefault((peer.role, peer.index), self._about_one(peer))
            for peer in sorted(view.peers, key=lambda peer: peer.index)
        )
        self.shared = _within_limits(_about_job(view), self._about_lists(view), peers)
        self._in_shared = frozenset([one for one, about in about_peers.items() if about.items() <= self.shared.items()])
        self.hosts = "".join(map(_host_line, view.peers))

    def of(self, task: Self) -> dict[str, str]:
        """Return the variables of one task beside those in `shared`, where all about it as a peer may be.

        Devices have the node's numbers; a backend that renumbers them replaces the variable.
        Raise KeyError for a task that is not among the peers.
        """
        peer = self._peers[task.role, task.index]
        if (task.role, task.index) in self._in_shared:
            return _about_self(task, peer)
        return {**self._about_one(peer), **_about_self(task, peer)}

    def require(self, task: Self) -> None:
        """Raise KeyError for a task that is not among the peers."""
        if (task.role, task.index) not in self._peers:
            raise KeyError(task)

    def _about_lists(self, view: JobView) -> dict[str, str]:
        lists: dict[str, str] = {
            "PAI_TASK_ROLE_INSTANCES": ",".join(f"{peer.role}:{peer.index}" for peer in view.peers),
        }
        by_role: dict[str, list[str]] = {role.name: [] for role in view.roles}
        for peer in view.peers:
            by_role.setdefault(peer.role, []).append(f"{peer.host}:{_first(peer, HTTP_LABEL)}")
        for name, addresses in by_role.items():
            for spelling in self._spellings.get(name, (name,)):
                lists[f"PAI_TASK_ROLE_{spelling}_HOST_LIST"] = ",".join(addresses)
        return lists

    def _about_one(self, peer: Peer) -> dict[str, str]:
        variables: dict[str, str] = {}
        for spelling in self._spellings.get(peer.role, (peer.role,)):
            name = f"{spelling}_{peer.index}"
            variables[f"PAI_HOST_IP_{name}"] = peer.host
            for label, ports in peer.ports.items():
                listed = _listed(ports)
                variables[f"PAI_PORT_LIST_{name}_{label}"] = listed
                variables[f"PAI_{name}_{label}_PORT"] = listed
        return variables


def _spellings(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return how each role is spelled: as written, and as OpenPAI normalised it where no other role has that name."""
    written = list(names)
    normalised = [re.sub(r"[^a-z0-9]", "", name.lower()) for name in written]
    return {
        name: (name,) if short in written or normalised.count(short) > 1 or not short else (name, short)
        for name, short in zip(written, normalised, strict=True)
    }


def _about_job(view: JobView) -> dict[str, str]:
    full_name = f"{view.user}~{view.job_name}"
    roles = ",".join(role.name for role in view.roles)
    tasks = str(sum(role.instances for role in view.roles))
    variables = {
        "PAI_FRAMEWORK_NAME": full_name,
        "PAI_JOB_NAME": full_name,
        "PAI_USER_NAME": view.user,
        "PAI_USERNAME": view.user,
        "FC_FRAMEWORK_NAME": full_name,
        "PAI_DEFAULT_FS_URI": "",
        "PAI_VIRTUAL_CLUSTER": view.virtual_cluster,
        "PAI_GRACE_SECONDS": f"{view.grace_s:g}",
        "PAI_TASK_ROLE_COUNT": str(len(view.roles)),
        "PAI_TASK_ROLES_NUM": str(len(view.roles)),
        "PAI_JOB_TASK_ROLE_COUNT": str(len(view.roles)),
        "PAI_TASK_ROLE_LIST": roles,
        "PAI_JOB_TASK_ROLE_LIST": roles,
        "PAI_TASKS_NUM": tasks,
        "PAI_JOB_TASK_COUNT": tasks,
    }
    for role in view.roles:
        need = role.resources
        variables[f"PAI_TASK_ROLE_TASK_COUNT_{role.name}"] = str(role.instances)
        variables[f"PAI_RESOURCE_{role.name}"] = f"{need.gpus},{need.cpus},{need.memory_mb},{role.shm_mb}"
        variables[f"PAI_MIN_FAILED_TASK_COUNT_{role.name}"] = str(role.completion.min_failed)
        variables[f"PAI_MIN_SUCCEEDED_TASK_COUNT_{role.name}"] = str(role.completion.min_succeeded)
    return variables


def _about_self(task: Self, peer: Peer) -> dict[str, str]:
    http, ssh = _first(peer, HTTP_LABEL), _first(peer, SSH_LABEL)
    devices = ",".join(map(str, task.devices))
    variables = {
        "PAI_CURRENT_TASK_ROLE_NAME": task.role,
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": str(task.index),
        "PAI_TASK_INDEX": str(task.index),
        "PAI_JOB_ATTEMPT_ID": str(task.job_attempt),
        "PAI_TASK_ATTEMPT_ID": str(task.task_attempt),
        "FC_TASKROLE_NAME": task.role,
        "FC_TASK_INDEX": str(task.index),
        "FC_FRAMEWORK_ATTEMPT_ID": str(task.job_attempt),
        "FC_TASK_ATTEMPT_ID": str(task.task_attempt),
        "PAI_CURRENT_CONTAINER_IP": peer.host,
        "PAI_CONTAINER_HOST_IP": peer.host,
        "PAI_CURRENT_CONTAINER_PORT": http,
        "PAI_CONTAINER_HOST_PORT": http,
        "PAI_CONTAINER_SSH_PORT": ssh,
        "PAI_CONTAINER_HOST_PORT_LIST": "".join(f"{label}:{_listed(ports)};" for label, ports in peer.ports.items()),
        "CUDA_VISIBLE_DEVICES": devices,
        # By default CUDA numbers the fastest device first, and the numbers above would name other devices.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "NVIDIA_VISIBLE_DEVICES": devices or "none",
    }
    for label, ports in peer.ports.items():
        variables[f"PAI_CONTAINER_HOST_{label}_PORT_LIST"] = _listed(ports)
    return variables


def _within_limits(job: dict[str, str], lists: dict[str, str], peers: Iterable[dict[str, str]]) -> dict[str, str]:
    shared = dict(job)
    left = BYTES_MAX - _RESERVED_BYTES - _size(job)
    for name, value in lists.items():
        size = _size({name: value})
        if size <= STRING_BYTES_MAX and size <= left:
            shared[name] = value
            left -= size
    return {**shared, **_about_those_that_fit(peers, left)}


def _about_those_that_fit(peers: Iterable[dict[str, str]], left: int) -> dict[str, str]:
    """Return the variables about all peers, or about the first ones if those are too large."""
    everybody: dict[str, str] = {}
    first: dict[str, str] = {}
    size = 0
    for variables in peers:
        size += _size(variables)
        if size > min(left, PEERS_BYTES_MAX):
            return first
        everybody.update(variables)
        if size <= FIRST_PEERS_BYTES:
            first = dict(everybody)
    return everybody


def _size(variables: Mapping[str, str]) -> int:
    return sum(len(f"{name}={value}".encode()) + 1 + _POINTER_BYTES for name, value in variables.items())


def _first(peer: Peer, label: str) -> str:
    ports = peer.ports.get(label)
    return str(ports[0]) if ports else ""


def _listed(ports: Iterable[int]) -> str:
    return ",".join(map(str, ports))


def _host_line(peer: Peer) -> str:
    ports = "".join(f" {label}={_listed(numbers)}" for label, numbers in peer.ports.items())
    return f"{peer.role} {peer.index} {peer.host}{ports}\n"
