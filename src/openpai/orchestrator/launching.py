"""Makes the action that launches a granted task: rendered commands, environment, image, limits.

The addresses and ports of all peers are known here, before anything starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from openpai.lifecycle.model import Task, TaskId
from openpai.lifecycle.rescaling import is_removed
from openpai.orchestrator.job_code import packed_code
from openpai.orchestrator.job_keys import keys_of, token_of
from openpai.orchestrator.job_storages import mounts
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.secrets import restored
from openpai.ports.backend import LaunchTask, RegistryAuth
from openpai.ports.storages import Storage
from openpai.ports.store import JobRecord
from openpai.protocol.job import JobSpec
from openpai.protocol.outputs import outputs_of
from openpai.protocol.placement import grace_of, has_unique_tasks
from openpai.protocol.templates import image_of, render_auth, render_commands, render_value
from openpai.runtime.applications import TOKEN
from openpai.runtime.environment import JobEnvironment, JobView, Peer, Self, TaskVariables
from openpai.runtime.plugin import PluginContext
from openpai.runtime.plugins import Plugins, with_plugins
from openpai.runtime.unpacking import unpacking


def launches(
    leader: Leader, record: JobRecord, tasks: Sequence[Task], storages: Mapping[str, Storage]
) -> Iterator[LaunchTask]:
    """Yield the launch action of each of `tasks`.

    Raises Refused when the job's secrets cannot be opened, or one of its storages is not among `storages`.
    """
    launcher = leader.active.launchers.get(record.job.id)
    if launcher is None or not launcher.serves(record):
        launcher = leader.active.launchers[record.job.id] = Launcher(leader, record, storages)
    return (launcher.launch(record, task) for task in tasks)


class Launcher:
    """Makes the launch actions of a job attempt; what its tasks share is worked out once.

    Raises Refused when the job's secrets cannot be opened, or one of its storages is not among `storages`.
    """

    def __init__(self, leader: Leader, record: JobRecord, storages: Mapping[str, Storage]) -> None:
        self._attempt = record.job.attempt
        self._slots = record.slots
        taken = leader.secrets.open(record.sealed)
        self._spec = restored(record.spec, taken)
        self._context = _context(record, self._spec, taken)
        self._plugins = leader.plugins
        self._code = packed_code(self._spec, leader.code)
        self._environment = JobEnvironment(_view(record, self._spec))
        token = token_of(taken)
        self._own_env = {TOKEN: token} if token else {}
        self._mounts = mounts(self._spec, record.user, storages, leader.secrets)
        self._grace_s = grace_of(self._spec.extras)
        self._outputs = outputs_of(self._spec.extras)
        self._parts: dict[str, _RoleParts] = {}

    def serves(self, record: JobRecord) -> bool:
        """Return whether it still knows all peers of the tasks.

        Tasks of a gang are placed together. Without gang allocation, and after a rescale, more may have been placed.
        """
        plan = record.job.plan
        is_placed_at_once = plan.is_gang and all(role.gang_instances is None for role in plan.roles)
        return record.job.attempt == self._attempt and (is_placed_at_once or record.slots is self._slots)

    def launch(self, record: JobRecord, task: Task) -> LaunchTask:
        """Return the launch action of a task."""
        role = self._spec.role(task.id.role)
        parts = self._parts.get(role.name)
        if parts is None:
            spec = self._spec
            commands = _commands(spec, replace(self._context, role=role.name), self._plugins)
            if self._code:
                commands = f"{unpacking()}\n{commands}"
            parts = _RoleParts(image_of(spec, role.name), commands, _auth(spec, role.name))
            self._parts[role.name] = parts
        slot = record.slots[task.id]
        itself = Self(role.name, task.id.index, record.job.attempt, task.attempt, slot.devices)
        return LaunchTask(
            key=record.job.key(task),
            grant=slot.grant,
            node=slot.node,
            devices=slot.devices,
            cpus=role.resources.cpus,
            memory_mb=role.resources.memory_mb,
            image=parts.image,
            commands=parts.commands,
            shared_env=self._environment.shared,
            env=TaskVariables(self._environment, itself, self._own_env),
            hosts=self._environment.hosts,
            ports=tuple([port for ports in slot.ports.values() for port in ports]),
            shm_mb=role.shm_mb,
            infiniband=role.infiniband,
            is_unique=has_unique_tasks(self._spec.extras),
            auth=parts.auth,
            submitted_at_ms=record.job.submitted_at_ms,
            grace_s=self._grace_s,
            code=self._code,
            outputs=self._outputs,
            mounts=self._mounts,
            labels={"user": record.user, "job": record.name, "role": role.name, "index": str(task.id.index)},
        )


@dataclass(frozen=True, slots=True)
class _RoleParts:
    """What the launch actions of all tasks of a role share."""

    image: str
    commands: str = field(repr=False)
    auth: RegistryAuth | None


def _view(record: JobRecord, spec: JobSpec) -> JobView:
    peers = tuple(
        Peer(id_.role, id_.index, slot.address, slot.ports)
        for id_ in _placed(record)
        if (slot := record.slots.get(id_)) is not None and not is_removed(record.job.plan, id_)
    )
    return JobView(record.user, record.name, record.virtual_cluster, spec.task_roles, peers, grace_of(spec.extras))


def _placed(record: JobRecord) -> Iterable[TaskId]:
    """Return the tasks that hold something, by role and index, and perhaps others."""
    tasks, slots = record.job.tasks, record.slots
    if len(slots) * 2 > len(tasks):
        return tasks
    # Of thousands that start one by one a few run at a time, and each start asks.
    places = {role.name: place for place, role in enumerate(record.job.plan.roles)}
    return sorted((id_ for id_ in slots if id_ in tasks), key=lambda id_: (places[id_.role], id_.index))


def _context(record: JobRecord, spec: JobSpec, taken: Mapping[str, Any]) -> PluginContext:
    roles = {role.name: role.instances for role in spec.task_roles}
    return PluginContext(record.user, record.name, "", roles, spec.is_gang, keys_of(taken))


def _commands(spec: JobSpec, context: PluginContext, plugins: Plugins) -> str:
    role = context.role
    commands = render_commands(spec, role)
    return with_plugins(spec, context, commands, lambda value: render_value(value, spec, role), plugins)


def _auth(spec: JobSpec, role: str) -> RegistryAuth | None:
    auth = render_auth(spec, role)
    return RegistryAuth(auth.username, auth.password, auth.registry_uri) if auth else None
