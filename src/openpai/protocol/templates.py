"""Renders templates: replaces references such as `<% $parameters.epochs %>` in job files by their values.

A reference names `$parameters`, `$secrets`, or the `$data`, `$script` or `$output` of its task role, then keys with
dots and list items with `[n]`. Values are inserted without escaping. An unresolved reference stays as it is. Since a
short file could expand to gigabytes, the inserted text is limited.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from openpai.protocol.documents import prerequisite_document
from openpai.protocol.job import PLUGIN_PREFIX, Auth, JobSpec, Prerequisite, RoleCommands, TaskRole

REGISTRY_DEFAULT: Final = "https://index.docker.io/v1/"
SCOPES: Final = ("parameters", "secrets", "data", "script", "output")
# Only single characters are repeated possessively: Debian 12's Python 3.11.2 mistakes where such a group ended.
_STEP: Final = r"(?:\.[^\s.\[\]<>%]++(?:[ \t]++[^\s.\[\]<>%]++)*|\[[0-9]+\])"
_REFERENCE: Final = re.compile(rf"<%\s*+\$(?P<scope>[A-Za-z]++)(?P<steps>{_STEP}+)\s*+%>")
_STEPS: Final = re.compile(r"[^.\[\]]+")
# Python refuses to parse numbers of thousands of digits, and no list is that long.
_NUMBER: Final = re.compile(r"[0-9]{1,9}")

RENDERED_MAX: Final = 16 * 1024 * 1024
"""Characters that references may put into all texts of a job together."""

Scope = Mapping[str, Any]
"""The values of each of the five kinds of reference; a missing kind resolves nothing."""


class TooLong(Exception):
    """References would insert more text than the limit allows."""


@dataclass(slots=True)
class Room:
    """The number of characters that references may still insert."""

    left: int = RENDERED_MAX

    def take(self, text: str) -> str:
        """Return the text; raise TooLong beyond the limit."""
        self.left -= len(text)
        if self.left < 0:
            raise TooLong
        return text


def render(text: str, scope: Scope, room: Room | None = None) -> str:
    """Return the text with every reference replaced that `scope` resolves; raise TooLong when that is no text."""
    if "<%" not in text:
        return text
    room = room or Room()
    return _REFERENCE.sub(lambda match: room.take(_replacement(match, scope)), text)


def is_reference(text: str) -> bool:
    """Return whether a text consists of one reference."""
    return _REFERENCE.fullmatch(text.strip()) is not None


def references(text: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield each reference in a text as written, its scope, and the steps into it."""
    if "<%" in text:
        for match in _REFERENCE.finditer(text):
            yield match.group(), match["scope"], tuple(_STEPS.findall(match["steps"]))


def resolve(scope: Scope, kind: str, steps: Iterable[str]) -> Any:
    """Return the value of a reference, or None if there is none."""
    value = scope.get(kind)
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, (list, tuple)) and _NUMBER.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def scope_of(spec: JobSpec, role: TaskRole) -> dict[str, Any]:
    """Return the values that references in a task role can use."""
    scope: dict[str, Any] = {"parameters": spec.parameters, "secrets": spec.secrets}
    for kind, name in (("data", role.data), ("script", role.script), ("output", role.output)):
        if name is not None:
            scope[kind] = prerequisite_document(spec.prerequisite(kind, name))
    return scope


def render_commands(spec: JobSpec, role_name: str, room: Room | None = None) -> str:
    """Return the shell text of a task role: the deployment's commands around its own, all references resolved."""
    role = spec.role(role_name)
    around = _around(spec, role_name)
    commands = (*around.pre, *role.commands, *around.post)
    return _render_all("\n".join(command.strip() for command in commands).strip(), scope_of(spec, role), room or Room())


def render_value(value: Any, spec: JobSpec, role_name: str, room: Room | None = None) -> Any:
    """Return a plugin's parameters with references resolved inside texts only; the structure never changes."""
    return _render_inside(value, scope_of(spec, spec.role(role_name)), room or Room())


def is_renderable(spec: JobSpec) -> bool:
    """Return whether all references of a job can be replaced within the limit."""
    room = Room()
    plugins = [spec.extras.get(PLUGIN_PREFIX), [one.extra for one in spec.prerequisites if one.plugin]]
    try:
        for role in spec.task_roles:
            render_commands(spec, role.name, room)
            render_auth(spec, role.name, room)
            render_value(plugins, spec, role.name, room)
    except TooLong:
        return False
    return True


def image_of(spec: JobSpec, role_name: str) -> str:
    """Return the image a task role runs in, as written."""
    return _image(spec, role_name).uri[0]


def render_auth(spec: JobSpec, role_name: str, room: Room | None = None) -> Auth | None:
    """Return the registry's credentials for a task role's image with secrets resolved, or None without any."""
    auth = _image(spec, role_name).auth
    if auth is None:
        return None
    scope = {"secrets": spec.secrets}
    room = room or Room()
    rendered = [render(text, scope, room) for text in (auth.username, auth.password, auth.registry_uri)]
    return replace(auth, username=rendered[0], password=rendered[1], registry_uri=rendered[2] or REGISTRY_DEFAULT)


def _image(spec: JobSpec, role_name: str) -> Prerequisite:
    return spec.prerequisite("dockerimage", spec.role(role_name).docker_image)


def _around(spec: JobSpec, role_name: str) -> RoleCommands:
    for deployment in spec.deployments:
        if deployment.name == spec.deployment:
            return deployment.task_roles.get(role_name, RoleCommands())
    return RoleCommands()


def _render_all(text: str, scope: dict[str, Any], room: Room) -> str:
    # Secrets last: a parameter may refer to a secret, but references inside a secret are not replaced.
    rest = {kind: value for kind, value in scope.items() if kind != "secrets"}
    return render(render(text, rest, room), {"secrets": scope["secrets"]}, room)


def _render_inside(value: Any, scope: dict[str, Any], room: Room) -> Any:
    if isinstance(value, str):
        return _render_all(value, scope, room)
    if isinstance(value, Mapping):
        return {key: _render_inside(entry, scope, room) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_render_inside(entry, scope, room) for entry in value]
    return value


def _replacement(match: re.Match[str], scope: Scope) -> str:
    value = resolve(scope, match["scope"], _STEPS.findall(match["steps"]))
    if value is None:
        return match.group()
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
