"""Upgrades job files of version 1, JSON from before the protocol, to version 2.

Everything that version 2 supports is converted; the rest becomes a warning and is never dropped silently. Faults name
the keys of the old file, so that their owner recognises them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from shlex import quote
from typing import Any, Final

from pydantic import ValidationError

from openpai.protocol.findings import FAULTS_MAX, Finding
from openpai.protocol.parsing import Path
from openpai.protocol.references import entries, mapping
from openpai.protocol.schema import NAME_PATTERN, WORD_PATTERN
from openpai.protocol.schema_findings import findings_of, keys_of
from openpai.protocol.schema_v1 import JobV1, PortV1, TaskRoleV1
from openpai.protocol.spelling import nearest
from openpai.protocol.wording import listed

ENDLESS_RETRIES: Final = 100
"""The number of retries of a job that asked for retries without end."""
_PART: Final = "default"
_DIRECTORIES: Final = {
    "dataDir": ("data", "PAI_DATA_DIR"),
    "outputDir": ("output", "PAI_OUTPUT_DIR"),
    "codeDir": ("script", "PAI_CODE_DIR"),
}
# Known when the task starts, and the only variables that version 1 put into directories.
_VARIABLE: Final = re.compile(r"(\$(?:PAI_DEFAULT_FS_URI|PAI_JOB_NAME|PAI_USER_NAME)\b)")


@dataclass(slots=True)
class Upgraded:
    """A document of version 2 (meaningless if there are faults), with the findings about the old one."""

    document: dict[str, Any] = field(default_factory=dict)
    faults: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)

    def warn(self, path: Path, message: str) -> None:
        self.warnings.append(Finding(path, message))


def is_v1(document: Mapping[str, Any]) -> bool:
    """Return whether a document is of version 1: it has `jobName`, or a list of task roles, and no version."""
    if "protocolVersion" in document:
        return False
    return "jobName" in document or isinstance(document.get("taskRoles"), list)


def upgrade(old: Mapping[str, Any]) -> Upgraded:
    """Return the job of version 2 for a version 1 file."""
    result = Upgraded()
    try:
        JobV1.model_validate(old)
    except ValidationError as error:
        result.faults = findings_of(error)
        # An unknown key is only a warning, unless it misspells a missing one.
        missing = {finding.path for finding in result.faults if finding.message == "is missing"}
        unknown = islice(_unknown_keys(old), FAULTS_MAX)
        result.faults += [one for one in unknown if one.suggestion and (*one.path[:-1], one.suggestion) in missing]
        return result
    result.warnings.extend(islice(_unknown_keys(old), FAULTS_MAX))
    names = _role_names(old, result)
    if result.faults:
        return result
    roles = {
        name: _role(role, index, result) for index, (name, role) in enumerate(zip(names, old["taskRoles"], strict=True))
    }
    result.document = {
        "protocolVersion": 2,
        "name": _renamed(("jobName",), old["jobName"], NAME_PATTERN, result),
        "type": "job",
        "jobRetryCount": _retries(old, result),
        "prerequisites": [{"type": "dockerimage", "name": _PART, "uri": old["image"]}],
        "parameters": old.get("jobEnvs") or None,
        "taskRoles": roles,
        "defaults": {"virtualCluster": old.get("virtualCluster") or None},
        "extras": _extras(old, roles, result),
    }
    _add_directories(old, result)
    _add_exports(old, result)
    _warn_of_losses(old, result)
    return result


def _unknown_keys(old: Mapping[str, Any]) -> Iterator[Finding]:
    places: list[tuple[Path, Mapping[str, Any], tuple[str, ...]]] = [((), old, keys_of(JobV1))]
    for index, role in enumerate(map(mapping, entries(old.get("taskRoles")))):
        places.append((("taskRoles", index), role, keys_of(TaskRoleV1)))
        for at, port in enumerate(map(mapping, entries(role.get("portList")))):
            places.append((("taskRoles", index, "portList", at), port, keys_of(PortV1)))
    for path, holder, known in places:
        for key in holder:
            if key not in known:
                yield Finding(
                    (*path, key), "is not a key of version 1 and is left out", listed(known), nearest(key, known)
                )


def _role_names(old: Mapping[str, Any], result: Upgraded) -> list[str]:
    names: list[str] = []
    for index, role in enumerate(old["taskRoles"]):
        path: Path = ("taskRoles", index, "name")
        name = _renamed(path, role["name"], WORD_PATTERN, result)
        if name in names:
            message = f"there is already a task role called {name!r}"
            result.faults.append(Finding(path, message, "names that differ in letters, digits or _"))
        names.append(name)
    return names


def _renamed(path: Path, name: str, pattern: str, result: Upgraded) -> str:
    """Return the name, changed as little as version 2 needs."""
    if re.fullmatch(pattern, name):
        return name
    new = re.sub(r"[^A-Za-z0-9_-]" if pattern == NAME_PATTERN else r"[^A-Za-z0-9_]", "_", name)
    if not re.fullmatch(pattern, new):
        new = f"_{new}"
    result.warn(path, f"{name!r} is called {new!r} now: version 2 does not allow the old name")
    return new


def _role(old: Mapping[str, Any], index: int, result: Upgraded) -> dict[str, Any]:
    path: Path = ("taskRoles", index)
    failed = old.get("minFailedTaskCount", 1)
    if failed is None:
        failed = -1
        result.warn((*path, "minFailedTaskCount"), "null is -1 now: failed tasks of this role never fail the job")
    shm_mb = old.get("shmMB") or 64
    return {
        "dockerImage": _PART,
        "instances": old.get("taskNumber") or 1,
        "completion": {"minFailedInstances": failed, "minSucceededInstances": old.get("minSucceededTaskCount")},
        "resourcePerInstance": {
            "cpu": _or(old.get("cpuNumber"), 1),
            "memoryMB": _or(old.get("memoryMB"), 100),
            "gpu": _or(old.get("gpuNumber"), 0),
            "ports": _ports(old, path, result),
        },
        "extraContainerOptions": {"shmMB": shm_mb},
        "commands": [old["command"]],
    }


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _ports(old: Mapping[str, Any], path: Path, result: Upgraded) -> dict[str, int]:
    ports: dict[str, int] = {}
    for at, port in enumerate(old.get("portList") or ()):
        where: Path = (*path, "portList", at)
        label = _renamed((*where, "label"), port["label"], WORD_PATTERN, result)
        ports[label] = ports.get(label, 0) + _or(port.get("portNumber"), 1)
        if port.get("beginAt"):
            result.warn(
                (*where, "beginAt"), "was left out: ports are chosen by the platform, read them from PAI_PORT_LIST_*"
            )
    return ports


def _retries(old: Mapping[str, Any], result: Upgraded) -> int:
    count: int = old.get("retryCount") or 0
    if count >= 0:
        return count
    also = " and succeeded jobs are not run again" if count == -2 else ""
    result.warn(("retryCount",), f"{count} is {ENDLESS_RETRIES} now: retries have an end{also}")
    return ENDLESS_RETRIES


def _extras(old: Mapping[str, Any], roles: Mapping[str, Any], result: Upgraded) -> dict[str, Any]:
    extras = dict(old.get("extras") or {})
    sku = old.get("gpuType")
    if not sku:
        return extras
    hived = dict(mapping(extras.get("hivedScheduler")))
    placements = dict(mapping(hived.get("taskRoles")))
    for name, role in roles.items():
        if role["resourcePerInstance"]["gpu"] > 0 and not mapping(placements.get(name)).get("pinnedCellId"):
            placements[name] = {"skuType": sku, **mapping(placements.get(name))}
    if not placements:
        result.warn(("gpuType",), "was left out: no task role asks for GPUs")
        return extras
    result.warn(("gpuType",), f"became the skuType {sku!r} of each role with GPUs; check that the cluster knows it")
    return {**extras, "hivedScheduler": {**hived, "taskRoles": placements}}


def _add_directories(old: Mapping[str, Any], result: Upgraded) -> None:
    for key, (type_, variable) in _DIRECTORIES.items():
        directory = old.get(key)
        if not directory:
            continue
        uri: Any = [directory] if type_ == "data" else directory
        result.document["prerequisites"].append({"type": type_, "name": _PART, "uri": uri})
        for role in result.document["taskRoles"].values():
            role[type_] = _PART
        copied = " and nothing is copied into the task" if key == "codeDir" else ""
        result.warn((key,), f"is only a name in {variable}: the platform has no file system of its own{copied}")


def _add_exports(old: Mapping[str, Any], result: Upgraded) -> None:
    """Add a deployment that sets the variables which version 1 gave to commands."""
    exports = [
        f"export {variable}={_expanded(old[key])}" for key, (_, variable) in _DIRECTORIES.items() if old.get(key)
    ]
    for name, value in (old.get("jobEnvs") or {}).items():
        if not re.fullmatch(WORD_PATTERN, name):
            result.warn(("jobEnvs", name), "was left out of the environment: it cannot be the name of a variable")
        elif isinstance(value, (dict, list)):
            result.warn(("jobEnvs", name), "was left out of the environment: it is not a single value")
        elif value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            exports.append(f"export {name}={quote(text)}")
    if exports:
        around = {name: {"preCommands": exports} for name in result.document["taskRoles"]}
        result.document["deployments"] = [{"name": _PART, "taskRoles": around}]
        result.document["defaults"]["deployment"] = _PART


def _expanded(directory: str) -> str:
    parts = _VARIABLE.split(directory)
    return "".join(f'"{part}"' if _VARIABLE.fullmatch(part) else quote(part) for part in parts if part)


def _warn_of_losses(old: Mapping[str, Any], result: Upgraded) -> None:
    if old.get("authFile"):
        advice = "put the registry's credentials into secrets and refer to them in the prerequisite's auth"
        result.warn(("authFile",), f"was left out: the file cannot be read here; {advice}")
    if old.get("killAllOnCompletedTaskNumber"):
        result.warn(
            ("killAllOnCompletedTaskNumber",), "was left out: set minSucceededTaskCount in the task role that decides"
        )
    for name in ("isDebug", "paiAzRDMA"):
        if name in (old.get("jobEnvs") or {}):
            result.warn(("jobEnvs", name), "is an ordinary variable now and changes nothing about the container")
