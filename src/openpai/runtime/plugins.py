"""Runtime plugins: commands that a job asks to run before and after a task's own commands.

A plugin is named by a prerequisite that the task role lists, or by the job's extras, in this order. Commands that run
after the task's run in the opposite order, and only if the task's commands succeeded. Each plugin's commands run in a
shell of their own. Their first failure ends them and fails the task; `failurePolicy: ignore` turns both off. Only `cmd`
runs something so far; `protocol.warnings` warns about the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from openpai.protocol.job import PLUGIN_PREFIX, JobSpec
from openpai.protocol.references import COMMAND_PLUGIN, entries, mapping
from openpai.runtime.script import in_subshell

STORAGE_PLUGIN: Final = "teamwise_storage"
"""OpenPAI's old way to ask for storages. `orchestrator.job_storages` reads it; it runs nothing here."""
_EVENTS: Final = {"taskStarts": "preCommands", "taskSucceeds": "postCommands"}


@dataclass(frozen=True, slots=True)
class _Plugin:
    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    is_failure_ignored: bool = False

    def commands(self, moment: str) -> tuple[str, ...]:
        """Return the commands in `preCommands` or `postCommands`, which may be a text or a list."""
        listed = list(_texts(self.parameters.get(moment)))
        for callback in map(mapping, entries(self.parameters.get("callbacks"))):
            if _EVENTS.get(str(callback.get("event"))) == moment:
                listed.extend(_texts(callback.get("commands")))
        return tuple(listed)


def with_plugins(spec: JobSpec, role_name: str, commands: str, render: Callable[[str], str]) -> str:
    """Return `commands` with the commands of the role's plugins around them, each plugin in a shell of its own.

    `render` resolves the templates in a plugin's parameters. Commands without plugins come back unchanged.
    """
    before: list[str] = []
    after: list[str] = []
    for plugin in _plugins(spec, role_name):
        if plugin.name == COMMAND_PLUGIN:
            before.append(_block(plugin, plugin.commands("preCommands"), render))
            after.insert(0, _block(plugin, plugin.commands("postCommands"), render))
    ending = [block for block in after if block]
    # An `exit 0` in the task's own commands must not skip the commands after a success.
    own = in_subshell(commands) if ending else commands
    return "\n".join([*(block for block in before if block), own, *ending])


def _plugins(spec: JobSpec, role_name: str) -> list[_Plugin]:
    wanted = set(spec.role(role_name).prerequisites)
    prerequisites = [
        _Plugin(
            _short(prerequisite.plugin),
            {key: value for key, value in prerequisite.extra.items() if key != "failurePolicy"},
            prerequisite.extra.get("failurePolicy") == "ignore",
        )
        for prerequisite in spec.prerequisites
        if prerequisite.name in wanted and prerequisite.plugin and prerequisite.plugin.startswith(PLUGIN_PREFIX)
    ]
    extras = [
        _Plugin(
            _short(str(entry.get("plugin", ""))),
            mapping(entry.get("parameters")),
            entry.get("failurePolicy") == "ignore",
        )
        for entry in map(mapping, entries(spec.extras.get(PLUGIN_PREFIX)))
        if entry and _is_for(entry, role_name)
    ]
    return [*prerequisites, *extras]


def _is_for(entry: Mapping[str, Any], role_name: str) -> bool:
    roles = entry.get("taskroles")
    return roles is None or role_name in entries(roles)


def _short(name: str | None) -> str:
    return (name or "").removeprefix(f"{PLUGIN_PREFIX}.")


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(str(item) for item in value) if isinstance(value, list | tuple) else ()


def _block(plugin: _Plugin, commands: tuple[str, ...], render: Callable[[str], str]) -> str:
    # As in OpenPAI, in a shell of its own: an `exit 0`, `cd` or `export` must not affect the task.
    text = "\n".join(render(command).strip() for command in commands)
    if not text:
        return ""
    return f"{in_subshell(text, stops_at_failure=False)} || true" if plugin.is_failure_ignored else in_subshell(text)
