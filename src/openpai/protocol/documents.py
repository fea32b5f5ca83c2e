"""Converts documents with the keys of job files to the values of `job`, and back.

Both directions are here so that they stay consistent. Nothing is checked: documents have passed the schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from openpai.protocol.job import (
    DEFAULT_VIRTUAL_CLUSTER,
    SHM_MB_DEFAULT,
    Auth,
    Completion,
    Deployment,
    JobSpec,
    Prerequisite,
    Resources,
    RoleCommands,
    TaskRole,
)

_PREREQUISITE_KEYS: Final = frozenset(
    {"type", "name", "uri", "auth", "plugin", "require", "version", "contributor", "description", "protocolVersion"}
)


def spec_of(document: Mapping[str, Any]) -> JobSpec:
    """Return the job in a checked document, with every default applied."""
    defaults = dict(document.get("defaults") or {})
    virtual_cluster = defaults.pop("virtualCluster", None)
    deployment = defaults.pop("deployment", None)
    return JobSpec(
        name=document["name"],
        task_roles=tuple(_role(name, role) for name, role in document["taskRoles"].items()),
        prerequisites=tuple(_prerequisite(one) for one in document.get("prerequisites") or ()),
        parameters=document.get("parameters") or {},
        secrets=document.get("secrets") or {},
        job_retry_count=document.get("jobRetryCount") or 0,
        deployments=tuple(_deployment(one) for one in document.get("deployments") or ()),
        virtual_cluster=virtual_cluster or DEFAULT_VIRTUAL_CLUSTER,
        deployment=deployment,
        defaults_extra=defaults,
        extras=document.get("extras") or {},
        version=_text(document.get("version")),
        contributor=document.get("contributor") or None,
        description=document.get("description") or None,
    )


def _text(value: str | float | None) -> str | None:
    return None if value is None or value == "" else str(value)


def _prerequisite(document: Mapping[str, Any]) -> Prerequisite:
    uri = document.get("uri")
    return Prerequisite(
        type=document["type"],
        name=document["name"],
        uri=() if not uri else (uri,) if isinstance(uri, str) else tuple(uri),
        auth=_auth(document.get("auth") or {}),
        plugin=document.get("plugin") or None,
        require=tuple(document.get("require") or ()),
        version=_text(document.get("version")),
        contributor=document.get("contributor") or None,
        description=document.get("description") or None,
        extra={key: value for key, value in document.items() if key not in _PREREQUISITE_KEYS},
    )


def _auth(document: Mapping[str, Any]) -> Auth | None:
    fields = [document.get(key) or "" for key in ("username", "password", "registryuri")]
    return Auth(*fields) if any(fields) else None


def _role(name: str, document: Mapping[str, Any]) -> TaskRole:
    instances = document.get("instances") or 1
    completion = document.get("completion") or {}
    resources = document["resourcePerInstance"]
    container = document.get("extraContainerOptions") or {}
    return _shared_role(
        tuple((resources.get("ports") or {}).items()),
        (resources["cpu"], resources["memoryMB"], resources["gpu"]),
        (completion.get("minFailedInstances") or 1, completion.get("minSucceededInstances") or instances),
        name=name,
        docker_image=document["dockerImage"],
        commands=tuple(document["commands"]),
        instances=instances,
        task_retry_count=document.get("taskRetryCount") or 0,
        prerequisites=tuple(document.get("prerequisites") or ()),
        data=document.get("data"),
        output=document.get("output"),
        script=document.get("script"),
        shm_mb=container.get("shmMB") or SHM_MB_DEFAULT,
        infiniband=bool(container.get("infiniband")),
    )


# Thousands of jobs may wait of which each asks for the same.
@lru_cache(maxsize=512)
def _shared_role(
    ports: tuple[tuple[str, int], ...], amounts: tuple[int, int, int], completion: tuple[int, int], **fields: Any
) -> TaskRole:
    return TaskRole(resources=Resources(*amounts, dict(ports)), completion=Completion(*completion), **fields)


def _deployment(document: Mapping[str, Any]) -> Deployment:
    around = {
        role: RoleCommands(tuple(entry.get("preCommands") or ()), tuple(entry.get("postCommands") or ()))
        for role, entry in document["taskRoles"].items()
    }
    return Deployment(document["name"], around)


def document_of(spec: JobSpec) -> dict[str, Any]:
    """Return a job under the protocol's keys, without values that equal defaults."""
    defaults: dict[str, Any] = {**spec.defaults_extra}
    if spec.virtual_cluster != DEFAULT_VIRTUAL_CLUSTER:
        defaults["virtualCluster"] = spec.virtual_cluster
    if spec.deployment is not None:
        defaults["deployment"] = spec.deployment
    rest = _present(
        version=spec.version,
        contributor=spec.contributor,
        description=spec.description,
        jobRetryCount=spec.job_retry_count,
        prerequisites=[prerequisite_document(one) for one in spec.prerequisites],
        parameters=spec.parameters,
        secrets=spec.secrets,
        taskRoles={role.name: _role_document(role) for role in spec.task_roles},
        deployments=[_deployment_document(one) for one in spec.deployments],
        defaults=defaults,
        extras=spec.extras,
    )
    return {"protocolVersion": 2, "name": spec.name, "type": "job", **rest}


def prerequisite_document(prerequisite: Prerequisite) -> dict[str, Any]:
    """Return a prerequisite under the protocol's keys: `uri` is a list for data and a text for the others."""
    uri: Any = list(prerequisite.uri) if prerequisite.type == "data" else "".join(prerequisite.uri[:1])
    auth = prerequisite.auth
    known = _present(
        uri=uri,
        plugin=prerequisite.plugin,
        require=list(prerequisite.require),
        version=prerequisite.version,
        contributor=prerequisite.contributor,
        description=prerequisite.description,
    )
    if auth is not None:
        known["auth"] = _present(username=auth.username, password=auth.password, registryuri=auth.registry_uri)
    return {"type": prerequisite.type, "name": prerequisite.name, **known, **prerequisite.extra}


def _role_document(role: TaskRole) -> dict[str, Any]:
    resources = role.resources
    return {
        "dockerImage": role.docker_image,
        **_present(
            instances=role.instances if role.instances != 1 else None,
            completion=_completion_document(role),
            taskRetryCount=role.task_retry_count,
            prerequisites=list(role.prerequisites),
            data=role.data,
            output=role.output,
            script=role.script,
            extraContainerOptions=_present(
                shmMB=role.shm_mb if role.shm_mb != SHM_MB_DEFAULT else None, infiniband=role.infiniband
            ),
        ),
        "resourcePerInstance": {
            "cpu": resources.cpus,
            "memoryMB": resources.memory_mb,
            "gpu": resources.gpus,
            **_present(ports=resources.ports),
        },
        "commands": list(role.commands),
    }


def _completion_document(role: TaskRole) -> dict[str, Any]:
    failed, succeeded = role.completion.min_failed, role.completion.min_succeeded
    return _present(
        minFailedInstances=failed if failed != 1 else None,
        minSucceededInstances=succeeded if succeeded != role.instances else None,
    )


def _deployment_document(deployment: Deployment) -> dict[str, Any]:
    return {
        "name": deployment.name,
        "taskRoles": {
            role: _present(preCommands=list(around.pre), postCommands=list(around.post))
            for role, around in deployment.task_roles.items()
        },
    }


def _present(**entries: Any) -> dict[str, Any]:
    """Return the entries with a value: null, 0, false and empty values mean the same as their absence."""
    return {key: value for key, value in entries.items() if value}
