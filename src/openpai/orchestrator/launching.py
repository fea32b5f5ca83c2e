"""From a granted task to the order that starts it: rendered commands, environment, image, limits.

Everything a task is told (who its peers are, where they listen) is known here, before anything starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from openpai.lifecycle.model import Task
from openpai.orchestrator.hiding import restored
from openpai.orchestrator.mounting import mounts
from openpai.orchestrator.office import Office
from openpai.orchestrator.specs import spec_of
from openpai.ports.backend import LaunchTask, RegistryAuth
from openpai.ports.storages import Storage
from openpai.ports.store import JobRecord
from openpai.protocol.job import JobSpec
from openpai.protocol.templates import image_of, render_auth, render_commands, render_value
from openpai.runtime.environment import JobEnvironment, JobView, Peer, Self
from openpai.runtime.plugins import with_plugins


def launches(
    office: Office, record: JobRecord, tasks: Sequence[Task], storages: Mapping[str, Storage]
) -> Iterator[LaunchTask]:
    """Yield the order that starts each of `tasks`.

    Raises Refused when the job's secrets cannot be opened, or one of its storages is not among `storages`.
    """
    spec = restored(spec_of(record), office.secrets.open(record.sealed))
    environment = JobEnvironment(_view(record, spec))
    mounted = mounts(spec, record.user, storages, office.secrets)
    commands: dict[str, str] = {}
    for task in tasks:
        role = spec.role(task.id.role)
        if role.name not in commands:
            commands[role.name] = _commands(spec, role.name)
        slot = record.slots[task.id]
        who = Self(role.name, task.id.index, record.job.attempt, task.attempt, slot.devices)
        yield LaunchTask(
            key=record.job.key(task),
            grant=slot.grant,
            node=slot.node,
            devices=slot.devices,
            cpus=role.resources.cpus,
            memory_mb=role.resources.memory_mb,
            image=image_of(spec, role.name),
            commands=commands[role.name],
            env=environment.of(who),
            hosts=environment.hosts,
            ports=tuple(port for ports in slot.ports.values() for port in ports),
            shm_mb=role.shm_mb,
            infiniband=role.infiniband,
            auth=_auth(spec, role.name),
            mounts=mounted,
            labels={"user": record.user, "job": record.name, "role": role.name, "index": str(task.id.index)},
        )


def _view(record: JobRecord, spec: JobSpec) -> JobView:
    peers = tuple(
        Peer(id_.role, id_.index, slot.address, slot.ports)
        for id_ in record.job.tasks
        if (slot := record.slots.get(id_)) is not None
    )
    return JobView(record.user, record.name, record.virtual_cluster, spec.task_roles, peers)


def _commands(spec: JobSpec, role: str) -> str:
    return with_plugins(spec, role, render_commands(spec, role), lambda text: str(render_value(text, spec, role)))


def _auth(spec: JobSpec, role: str) -> RegistryAuth | None:
    auth = render_auth(spec, role)
    return RegistryAuth(auth.username, auth.password, auth.registry_uri) if auth else None
