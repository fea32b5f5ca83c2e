"""Checks across a job file: references between names, sums, and settings that exclude each other.

The checks use the plain values of the file and assume nothing about their types, so that these faults are reported
together with those of single keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from openpai.protocol.application_faults import application_faults
from openpai.protocol.findings import Finding
from openpai.protocol.job import PLUGIN_PREFIX, TASKS_MAX
from openpai.protocol.outputs import STARS_MAX, output_fault, stars_in
from openpai.protocol.parsing import Path
from openpai.protocol.progress_pattern import EXAMPLE, PATTERN_MAX, InvalidPattern, compiled, progress_pattern
from openpai.protocol.spelling import nearest
from openpai.protocol.wording import listed

MASK: Final = "******"
COMMAND_PLUGIN: Final = "cmd"
PLUGIN_EVENTS: Final = ("taskStarts", "taskSucceeds")
_ROLE_KEYS: Final = {"dockerImage": "dockerimage", "data": "data", "output": "output", "script": "script"}
_MASKED: Final = "is masked, as in a configuration that was shown"
_ANY: Final = ""

Names = Mapping[str, Any]
"""Names that references may use, as the keys of a mapping in the order of the file."""


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a mapping, an empty one otherwise."""
    return value if isinstance(value, dict) else {}


def entries(value: Any) -> list[Any]:
    """Return the value if it is a list, an empty one otherwise."""
    return value if isinstance(value, list) else []


def reference_faults(document: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield all faults across keys."""
    prerequisites = [mapping(one) for one in entries(document.get("prerequisites"))]
    roles = mapping(document.get("taskRoles"))
    names: dict[str, dict[str, None]] = {}
    for one in prerequisites:
        for kind in (str(one.get("type")), _ANY):
            names.setdefault(kind, {}).update({str(one["name"]): None} if "name" in one else {})
    yield from _prerequisite_faults(prerequisites, names.get(_ANY, {}))
    for name, role in roles.items():
        yield from _role_faults(name, mapping(role), names)
    yield from _deployment_faults(document, roles)
    yield from _command_plugin_faults(document)
    yield from _size_faults(roles)
    yield from _hived_faults(document, roles)
    yield from _pattern_faults(mapping(document.get("extras")))
    yield from _mask_faults(document)
    yield from _output_faults(entries(mapping(document.get("extras")).get("outputs")))
    yield from application_faults(entries(mapping(document.get("extras")).get("applications")), roles)


def _output_faults(outputs: list[Any]) -> Iterator[Finding]:
    if stars_in(outputs) > STARS_MAX:
        yield Finding(("extras", "outputs"), "have too many stars together", f"at most {STARS_MAX}")
    for index, entry in enumerate(outputs):
        if isinstance(entry, str) and entry and (fault := output_fault(entry)):
            yield Finding(("extras", "outputs", index), fault, "a path or pattern below the working directory")


def _prerequisite_faults(prerequisites: list[Mapping[str, Any]], names: Names) -> Iterator[Finding]:
    seen: dict[tuple[str, str], int] = {}
    for index, one in enumerate(prerequisites):
        key = (str(one.get("type")), str(one.get("name")))
        if "name" in one and seen.setdefault(key, index) != index:
            message = f"there is already a {key[0]} called {key[1]!r}: prerequisites[{seen[key]}]"
            yield Finding(("prerequisites", index, "name"), message, "one name for each prerequisite of a type")
        for at, wanted in enumerate(entries(one.get("require"))):
            if isinstance(wanted, str):
                yield from _dangling(("prerequisites", index, "require", at), wanted, "prerequisite", names)


def _role_faults(name: str, role: Mapping[str, Any], names: Mapping[str, Names]) -> Iterator[Finding]:
    for key, type_ in _ROLE_KEYS.items():
        wanted = role.get(key)
        if isinstance(wanted, str):
            yield from _dangling(("taskRoles", name, key), wanted, f"{type_} prerequisite", names.get(type_, {}))
    for at, wanted in enumerate(entries(role.get("prerequisites"))):
        if isinstance(wanted, str):
            where: Path = ("taskRoles", name, "prerequisites", at)
            yield from _dangling(where, wanted, "prerequisite", names.get(_ANY, {}))


def _deployment_faults(document: Mapping[str, Any], roles: Mapping[str, Any]) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for index, one in enumerate(map(mapping, entries(document.get("deployments")))):
        name = one.get("name")
        if isinstance(name, str) and seen.setdefault(name, index) != index:
            message = f"there is already a deployment called {name!r}: deployments[{seen[name]}]"
            yield Finding(("deployments", index, "name"), message, "one name for each deployment")
        for role in mapping(one.get("taskRoles")):
            yield from _dangling(("deployments", index, "taskRoles", role), role, "task role", roles)
    wanted = mapping(document.get("defaults")).get("deployment")
    if isinstance(wanted, str):
        yield from _dangling(("defaults", "deployment"), wanted, "deployment", seen)


def _command_plugin_faults(document: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield faults of the plugin `cmd`, in prerequisites and in extras."""
    for index, one in enumerate(map(mapping, entries(document.get("prerequisites")))):
        if one.get("plugin") == f"{PLUGIN_PREFIX}.{COMMAND_PLUGIN}":
            yield from _command_faults(("prerequisites", index), one)
    for index, one in enumerate(map(mapping, entries(mapping(document.get("extras")).get(PLUGIN_PREFIX)))):
        if one.get("plugin") == COMMAND_PLUGIN:
            yield from _command_faults(("extras", PLUGIN_PREFIX, index, "parameters"), mapping(one.get("parameters")))


def _command_faults(path: Path, text: Mapping[str, Any]) -> Iterator[Finding]:
    for key in ("preCommands", "postCommands"):
        yield from _text_faults((*path, key), text.get(key))
    callbacks = text.get("callbacks")
    if callbacks is not None and not isinstance(callbacks, list):
        yield Finding((*path, "callbacks"), "must be a list", "a list of mappings of event and commands")
    for at, one in enumerate(entries(callbacks)):
        where: Path = (*path, "callbacks", at)
        event = mapping(one).get("event")
        if event not in PLUGIN_EVENTS:
            message = "is missing" if event is None else "is not an event that commands can follow"
            yield Finding((*where, "event"), message, listed(PLUGIN_EVENTS), nearest(event, PLUGIN_EVENTS))
        yield from _text_faults((*where, "commands"), mapping(one).get("commands"))


def _text_faults(path: Path, commands: Any) -> Iterator[Finding]:
    if commands is not None and not isinstance(commands, (str, list)):
        yield Finding(path, "must be a list", "a list of commands")
    for at, command in enumerate(entries(commands)):
        if not isinstance(command, str):
            yield Finding((*path, at), "must be text", "a command")


def _pattern_faults(extras: Mapping[str, Any]) -> Iterator[Finding]:
    pattern = progress_pattern(extras)
    if 0 < len(pattern) <= PATTERN_MAX:
        # The schema reports other lengths.
        try:
            compiled(pattern)
        except InvalidPattern as error:
            legal = f"an expression of RE2 with a group step, {EXAMPLE}"
            yield Finding(("extras", "progress", "pattern"), str(error), legal)


def _size_faults(roles: Mapping[str, Any]) -> Iterator[Finding]:
    counts = [mapping(role).get("instances") or 1 for role in roles.values()]
    total = sum(count for count in counts if isinstance(count, int) and count <= TASKS_MAX)
    if total > TASKS_MAX:
        yield Finding(("taskRoles",), f"ask for {total} tasks together", f"at most {TASKS_MAX} tasks in one job")


def _hived_faults(document: Mapping[str, Any], roles: Mapping[str, Any]) -> Iterator[Finding]:
    at: Path = ("extras", "hivedScheduler", "taskRoles")
    hived = mapping(mapping(document.get("extras")).get("hivedScheduler"))
    placements = mapping(hived.get("taskRoles"))
    groups: dict[str, tuple[str, Any, Any]] = {}
    for name, placement in placements.items():
        yield from _dangling((*at, name), name, "task role", roles)
        sku, cell, group = (mapping(placement).get(key) for key in ("skuType", "pinnedCellId", "affinityGroupName"))
        if sku and cell:
            yield Finding((*at, name, "pinnedCellId"), "cannot stand beside skuType", "either skuType or pinnedCellId")
        if cell and hived.get("jobPriorityClass") == "oppo":
            message = "is promised to a virtual cluster, and an opportunistic job has no part in promises"
            yield Finding((*at, name, "pinnedCellId"), message, "another jobPriorityClass, or no pinned cell")
        if isinstance(group, str) and group:
            first = groups.setdefault(group, (name, sku, cell))
            if first[1:] != (sku, cell):
                message = f"the group {group!r} wants other hardware in task role {first[0]!r}"
                allowed = "one skuType or pinnedCellId for all roles of a group"
                yield Finding((*at, name, "affinityGroupName"), message, allowed)


def _mask_faults(document: Mapping[str, Any]) -> Iterator[Finding]:
    secrets = document.get("secrets")
    for key, value in mapping(secrets).items():
        if value == MASK:
            yield Finding(("secrets", key), _MASKED, "the secret itself")
    for index, one in enumerate(map(mapping, entries(document.get("prerequisites")))):
        if mapping(one.get("auth")).get("password") == MASK:
            yield Finding(("prerequisites", index, "auth", "password"), _MASKED, "a reference to a secret")


def _dangling(path: Path, name: str, what: str, legal: Names) -> Iterator[Finding]:
    if name not in legal:
        yield Finding(path, f"there is no {what} called {name!r}", listed(legal), nearest(name, legal))


def unmasked(document: Mapping[str, Any], hidden: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with known hidden values in place of their masks; other masks stay."""
    secrets, passwords = mapping(hidden.get("secrets")), mapping(hidden.get("passwords"))
    found = dict(document)
    given = found.get("secrets")
    if given == MASK:
        found["secrets"] = dict(secrets)
    elif isinstance(given, dict):
        found["secrets"] = {key: secrets.get(key, value) if value == MASK else value for key, value in given.items()}
    prerequisites = found.get("prerequisites")
    if isinstance(prerequisites, list):
        found["prerequisites"] = [_with_password(one, passwords) for one in prerequisites]
    return found


def _with_password(one: Any, passwords: Mapping[str, Any]) -> Any:
    auth = mapping(mapping(one).get("auth"))
    name = f"{mapping(one).get('type')}/{mapping(one).get('name')}"
    if auth.get("password") != MASK or name not in passwords:
        return one
    return {**one, "auth": {**auth, "password": passwords[name]}}
