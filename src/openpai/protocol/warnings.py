"""Warnings about parts of a job file that are legal but probably not meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from pydantic import BaseModel

from openpai.protocol import schema, schema_extras
from openpai.protocol.findings import REPLACED_IN, Finding
from openpai.protocol.job import PLUGIN_PREFIX, JobSpec, TaskRole
from openpai.protocol.parsing import Path
from openpai.protocol.peer_variables import missing_peers
from openpai.protocol.references import entries, mapping
from openpai.protocol.schema_findings import keys_of
from openpai.protocol.spelling import LEGAL_MAX, misspelt, nearest
from openpai.protocol.templates import SCOPES, Scope, is_reference, references, resolve, scope_of
from openpai.protocol.wording import listed

ROLES_NAMED_MAX: Final = 5
_NOTIFICATION: Final = "jobStatusChangeNotification"
_CLOSED: Final[Mapping[str, type[BaseModel]]] = {
    "after": schema_extras.AfterEntry,
    "kueue": schema_extras.KueueRequest,
    "hangDetection": schema_extras.HangDetectionRequest,
    "progress": schema_extras.ProgressRequest,
    "applications": schema_extras.ApplicationRequest,
}
_PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "cmd": ("preCommands", "postCommands", "callbacks"),
    "git": ("repo_uri", "repository", "ref", "clone_dir", "options", "username", "password", "token"),
    "ssh": ("jobssh", "sshbarrier", "sshbarrierTimeout", "userssh"),
    "teamwise_storage": ("storageConfigNames",),
    "tensorboard": ("port", "logdir"),
}
"""What the plugins that every server has take."""
_HIVED_KEYS: Final = (
    "jobPriorityClass",
    "taskRoles",
    "affinityGroups",
    "topology",
    "gangReleaseEnable",
    "lazyPreemptionEnable",
    "interruptible",
    "checkpointMinutes",
    "ignoreK8sSuggestedNodes",
)
_HIVED_ROLE_KEYS: Final = ("skuType", "pinnedCellId", "affinityGroupName", "cellType", "skuNum", "skuNumber")


def warnings_of(spec: JobSpec) -> Iterator[Finding]:
    """Yield warnings about a job."""
    for role in spec.task_roles:
        yield from _unreachable_minima(role)
    yield from _racing_roles(spec)
    yield from _unresolved(spec)
    yield from _image_references(spec)
    yield from _plugins(spec)
    yield from _misspelt(spec)
    yield from _hived(spec)
    yield from _unknown(spec)
    yield from missing_peers(spec)


def _unreachable_minima(role: TaskRole) -> Iterator[Finding]:
    minima = {
        "minFailedInstances": role.completion.min_failed,
        "minSucceededInstances": role.completion.min_succeeded,
    }
    for key, minimum in minima.items():
        if minimum > role.instances:
            path: Path = ("taskRoles", role.name, "completion", key)
            yield Finding(path, f"{minimum} can never be reached by {role.instances} instances, so it means never")


def _racing_roles(spec: JobSpec) -> Iterator[Finding]:
    """Yield a warning where any of several roles may end the job by succeeding first."""
    racing = [role for role in spec.task_roles if 1 <= role.completion.min_succeeded <= role.instances]
    if len(racing) < 2:
        return
    names = [role.name for role in racing[:ROLES_NAMED_MAX]] + ["others"] * (len(racing) > ROLES_NAMED_MAX)
    text = f"the job succeeds as soon as {' or '.join(names)} has succeeded, and its other tasks are ended then"
    remedy = "give a role `completion: {minSucceededInstances: -1}` if the others should run on after it"
    yield Finding(("taskRoles",), f"{text}; {remedy}")


def _unresolved(spec: JobSpec) -> Iterator[Finding]:
    for role in spec.task_roles:
        scope = scope_of(spec, role)
        for path, text in _commands(spec, role):
            yield from _unresolved_in(path, text, scope)
    for index, prerequisite in enumerate(spec.prerequisites):
        auth = prerequisite.auth
        if auth is not None:
            at: Path = ("prerequisites", index, "auth", "password")
            if auth.password and not is_reference(auth.password):
                yield Finding(at, "is written out", "a secret, referred to as <% $secrets.registry_password %>")
            for key, text in (("username", auth.username), ("password", auth.password)):
                yield from _unresolved_in(("prerequisites", index, "auth", key), text, {"secrets": spec.secrets})


def _image_references(spec: JobSpec) -> Iterator[Finding]:
    for index, prerequisite in enumerate(spec.prerequisites):
        if prerequisite.type == "dockerimage" and any(references("".join(prerequisite.uri))):
            message = f"is taken as it is: references are replaced in {REPLACED_IN} only"
            yield Finding(("prerequisites", index, "uri"), message, "the image's name")


def _commands(spec: JobSpec, role: TaskRole) -> Iterator[tuple[Path, str]]:
    for at, command in enumerate(role.commands):
        yield ("taskRoles", role.name, "commands", at), command
    for index, deployment in enumerate(spec.deployments):
        around = deployment.task_roles.get(role.name)
        if around is not None:
            where: Path = ("deployments", index, "taskRoles", role.name)
            for at, command in enumerate(around.pre):
                yield (*where, "preCommands", at), command
            for at, command in enumerate(around.post):
                yield (*where, "postCommands", at), command


def _unresolved_in(path: Path, text: str, scope: Scope) -> Iterator[Finding]:
    for written, kind, steps in references(text):
        if resolve(scope, kind, steps) is None:
            yield Finding(
                path, f"{written} leads to nothing and stays in the text as it is", "", _meant(kind, steps, scope)
            )


def _meant(kind: str, steps: tuple[str, ...], scope: Scope) -> str:
    """Return the reference that was probably meant."""
    if kind not in SCOPES:
        near = nearest(kind, SCOPES)
        return f"<% ${near}.{'.'.join(steps)} %>" if near else ""
    holder = scope.get(kind)
    near = nearest(steps[0], map(str, holder)) if isinstance(holder, Mapping) else ""
    return f"<% ${kind}.{'.'.join((near, *steps[1:]))} %>" if near and near != steps[0] else ""


def _plugins(spec: JobSpec) -> Iterator[Finding]:
    roles = [role.name for role in spec.task_roles]
    for index, plugin in enumerate(entries(spec.extras.get(PLUGIN_PREFIX))):
        for at, role in enumerate(entries(plugin.get("taskroles"))):
            if role not in roles:
                message = f"there is no task role called {role!r}"
                path: Path = ("extras", PLUGIN_PREFIX, index, "taskroles", at)
                yield Finding(path, message, listed(roles), nearest(role, roles))
        known = _PARAMETERS.get(str(plugin.get("plugin")), ())
        for key in mapping(plugin.get("parameters")) if known else ():
            if key not in known:
                message = "has no effect: it is not a parameter of this plugin"
                path = ("extras", PLUGIN_PREFIX, index, "parameters", key)
                yield Finding(path, message, listed(known), nearest(key, known))


def _misspelt(spec: JobSpec) -> Iterator[Finding]:
    """Yield unknown keys that look like known ones in sections that allow any key."""
    extras = spec.extras
    places: list[tuple[Path, Any, type[BaseModel]]] = [
        (("defaults",), spec.defaults_extra, schema.DefaultsSection),
        (("extras",), extras, schema_extras.Extras),
        (("extras", _NOTIFICATION), extras.get(_NOTIFICATION), schema_extras.Notifications),
    ]
    for at, storage in enumerate(entries(extras.get("storages"))):
        places.append((("extras", "storages", at), storage, schema_extras.StorageEntry))
    for at, plugin in enumerate(entries(extras.get(PLUGIN_PREFIX))):
        places.append((("extras", PLUGIN_PREFIX, at), plugin, schema_extras.RuntimePlugin))
    keys = ((path, key, keys_of(section)) for path, holder, section in places for key in mapping(holder))
    unknown = ((path, key, known) for path, key, known in keys if key not in known)
    for path, key, known in islice(unknown, LEGAL_MAX):
        if meant := misspelt(key, known):
            yield Finding((*path, key), "has no effect: it is not a key that is known here", "", meant)


def _unknown(spec: JobSpec) -> Iterator[Finding]:
    """Yield the unknown keys of sections in which a wrong key changes what is asked for."""
    for key, section in _CLOSED.items():
        held = spec.extras.get(key)
        places = enumerate(entries(held)) if isinstance(held, list) else [(None, mapping(held))]
        for at, holder in places:
            path: Path = ("extras", key) if at is None else ("extras", key, at)
            known = keys_of(section)
            for each in mapping(holder):
                # The platform writes the id of the job that is meant.
                if each not in known and (key, each) != ("after", "id"):
                    message = "has no effect: it is not a key that is known here"
                    yield Finding((*path, each), message, listed(known), nearest(each, known))


def _hived(spec: JobSpec) -> Iterator[Finding]:
    hived = mapping(spec.extras.get("hivedScheduler"))
    yield from _unknown_keys(("extras", "hivedScheduler"), hived, _HIVED_KEYS)
    for role, placements in mapping(hived.get("taskRoles")).items():
        yield from _unknown_keys(("extras", "hivedScheduler", "taskRoles", role), mapping(placements), _HIVED_ROLE_KEYS)


def _unknown_keys(path: Path, holder: Mapping[str, Any], known: tuple[str, ...]) -> Iterator[Finding]:
    for key in holder:
        if key not in known:
            yield Finding((*path, key), "is not a key that the scheduler knows", listed(known), nearest(key, known))
