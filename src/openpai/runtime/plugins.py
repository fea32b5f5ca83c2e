"""Runtime plugins around a task's own commands: which ones a task role uses, in which order, and what fails the task.

A plugin is named by a prerequisite that the task role lists, or by the job's extras, in this order. What runs before
the task's commands runs in that order, what runs after them in the opposite order. Each plugin's commands run in a
shell of their own, and their first failure ends them. Before the task's commands it also fails the task, which then
never runs them. Afterwards all plugins run, however the task's commands ended, also within the grace period after
SIGTERM; the exit code is that of the task's commands, or of the first plugin that failed if they succeeded.
`failurePolicy: ignore` turns all of this off for one plugin.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from openpai.protocol.errors import Refused
from openpai.protocol.findings import Finding
from openpai.protocol.job import PLUGIN_PREFIX, JobSpec
from openpai.protocol.parsing import Path
from openpai.protocol.references import COMMAND_PLUGIN, entries, mapping
from openpai.protocol.spelling import nearest
from openpai.protocol.wording import listed
from openpai.runtime.builtin_plugins import BUILT_IN
from openpai.runtime.plugin import PluginCommands, PluginContext, RuntimePlugin
from openpai.runtime.script import in_subshell

SSH_PLUGIN: Final = "ssh"
EXIT_CODE: Final = "PAI_TASK_EXIT_CODE"
_ODD: Final = re.compile(r"[^\w.@/-]")

Plugins = Mapping[str, RuntimePlugin]
"""The plugins that a server knows, by name."""


@dataclass(frozen=True, slots=True)
class Use:
    """A plugin that a job uses, as its file says."""

    name: str
    path: Path
    """The place of its parameters in the job file."""
    parameters: Mapping[str, Any] = field(default_factory=dict, repr=False)
    is_failure_ignored: bool = False
    roles: frozenset[str] = frozenset()


def uses(spec: JobSpec) -> tuple[Use, ...]:
    """Return the plugins that task roles of a job use, in the order in which they run."""
    found = []
    for index, prerequisite in enumerate(spec.prerequisites):
        if not prerequisite.plugin or not prerequisite.plugin.startswith(PLUGIN_PREFIX):
            continue
        if roles := frozenset(role.name for role in spec.task_roles if prerequisite.name in role.prerequisites):
            parameters = {key: value for key, value in prerequisite.extra.items() if key != "failurePolicy"}
            is_ignored = prerequisite.extra.get("failurePolicy") == "ignore"
            name = prerequisite.plugin.removeprefix(f"{PLUGIN_PREFIX}.")
            found.append(Use(name, ("prerequisites", index), parameters, is_ignored, roles))
    of_extras = entries(spec.extras.get(PLUGIN_PREFIX))
    every = frozenset(role.name for role in spec.task_roles) if of_extras else frozenset()
    for index, entry in enumerate(map(mapping, of_extras)):
        named = entry.get("taskroles")
        roles = every if named is None else every.intersection(map(str, entries(named)))
        if entry and roles:
            path: Path = ("extras", PLUGIN_PREFIX, index, "parameters")
            is_ignored = entry.get("failurePolicy") == "ignore"
            found.append(Use(str(entry.get("plugin", "")), path, mapping(entry.get("parameters")), is_ignored, roles))
    return tuple(found)


def plugin_faults(spec: JobSpec, known: Plugins = BUILT_IN) -> Iterator[Finding]:
    """Yield the faults of a job's plugins: unknown ones, and what each says about its parameters."""
    for use in uses(spec):
        plugin = known.get(use.name)
        if plugin is None:
            if not use.is_failure_ignored:
                yield _unknown(use, known)
        elif use.name not in _CHECKED_BY_PROTOCOL:
            yield from _faults_of(plugin, use)


def plugin_warnings(spec: JobSpec, known: Plugins = BUILT_IN) -> Iterator[Finding]:
    """Yield the plugins that are left out because they are unknown, and their failures are ignored."""
    for use in uses(spec):
        if use.is_failure_ignored and use.name not in known:
            unknown = _unknown(use, known)
            yield unknown._replace(message=f"{unknown.message}; it is left out, as failurePolicy says")


def offline_check(spec: JobSpec) -> tuple[list[Finding], list[Finding]]:
    """Return faults and warnings where the server's own plugins are not known: an unknown one is only a warning."""
    faults = list(plugin_faults(spec))
    places = {_unknown(use, BUILT_IN).path for use in uses(spec) if use.name not in BUILT_IN}
    unknown = [fault for fault in faults if fault.path in places]
    warnings = [fault._replace(message=f"{fault.message} here; the server may have it") for fault in unknown]
    return [fault for fault in faults if fault.path not in places], [*warnings, *plugin_warnings(spec)]


def with_plugins(
    spec: JobSpec,
    context: PluginContext,
    commands: str,
    render: Callable[[Any], Any],
    known: Plugins = BUILT_IN,
) -> str:
    """Return `commands` with the commands of the role's plugins around them, each plugin in a shell of its own.

    `render` resolves the templates in a plugin's parameters. Commands without plugins come back unchanged.
    Raise Refused for a plugin that is unknown or fails, unless its failures are ignored.
    """
    before: list[str] = []
    after: list[str] = []
    exports: list[str] = []
    for use in uses(spec):
        if context.role in use.roles:
            made = _made(use, context, render, known)
            if use.name != COMMAND_PLUGIN:
                made = _quoted(made)
            before.extend(_before(made.before, use))
            exports.extend(f'export {name}="{value}"' for name, value in made.environment.items())
            after[:0] = [*_after(made.after_success, use, "= 0"), *_after(made.after, use, "")]
    if not after:
        return "\n".join([*before, *exports, commands])
    # An `exit 0` in the task's own commands must not skip what runs after them, nor must SIGTERM.
    own = ["trap : TERM", "set +e", in_subshell("\n".join([*exports, commands]))]
    kept = [f"export {EXIT_CODE}=$?", f"pai_end=${EXIT_CODE}"]
    return "\n".join([*before, *own, *kept, *after, 'exit "$pai_end"'])


def _faults_of(plugin: RuntimePlugin, use: Use) -> Iterator[Finding]:
    try:
        for fault in plugin.faults(use.parameters):
            yield fault._replace(path=(*use.path, *fault.path))
    except Exception as error:
        message = f"cannot be checked: the runtime plugin {use.name!r} failed on the server: {type(error).__name__}"
        yield Finding(use.path, message)


def _made(use: Use, context: PluginContext, render: Callable[[Any], Any], known: Plugins) -> PluginCommands:
    plugin = known.get(use.name)
    if plugin is None:
        if use.is_failure_ignored:
            return PluginCommands()
        fault = _unknown(use, known)
        raise Refused("InvalidProtocolError", fault.message, f"its server has: {fault.allowed}")
    try:
        return plugin.commands(mapping(render(dict(use.parameters))), _for(context, use))
    except Exception as error:
        if use.is_failure_ignored:
            return PluginCommands()
        # The text of the error may hold a secret out of the parameters.
        message = f"the runtime plugin {use.name!r} failed on the server: {type(error).__name__}"
        raise Refused("InvalidProtocolError", message, "correct its parameters, or ask an administrator") from error


def _quoted(made: PluginCommands) -> PluginCommands:
    """Return a plugin's scripts as one word each, which a simulated machine does not read as commands of the task."""
    before, after, after_success = (
        f"eval {shlex.quote(text)}" if text.strip() else "" for text in (made.before, made.after, made.after_success)
    )
    return PluginCommands(before, after, after_success, made.environment)


def _for(context: PluginContext, use: Use) -> PluginContext:
    return PluginContext(
        context.user, context.job, context.role, context.roles, context.is_gang, context.keys, use.roles
    )


def _unknown(use: Use, known: Plugins) -> Finding:
    path = (*use.path[:-1], "plugin") if use.path[0] == "extras" else (*use.path, "plugin")
    names = sorted(known)
    return Finding(path, f"there is no runtime plugin called {use.name!r}", listed(names), nearest(use.name, names))


def _before(text: str, use: Use) -> list[str]:
    # As in OpenPAI, in a shell of its own: an `exit 0`, `cd` or `export` must not affect the task.
    block = _block(text, use)
    return [block] if block else []


def _after(text: str, use: Use, only_if: str) -> list[str]:
    block = _block(text, use)
    if not block:
        return []
    if only_if:
        block = f'[ "${EXIT_CODE}" != 0 ] || {block}'
    return [block] if use.is_failure_ignored else [block, "pai_post=$?", '[ "$pai_end" != 0 ] || pai_end=$pai_post']


def _block(text: str, use: Use) -> str:
    if not text.strip():
        return ""
    name = _ODD.sub("_", use.name)
    end = ", which the job ignores" if use.is_failure_ignored else ""
    complaint = f'echo "runtime plugin {name} failed with exit code $pai_plugin{end}" >&2'
    # Not by `||` after it, which would switch `set -e` off in there.
    block = f"trap 'pai_plugin=$?; case $pai_plugin in 0 | 143) ;; *) {complaint} ;; esac' EXIT\n{text}"
    return f"{in_subshell(block, stops_at_failure=False)} || true" if use.is_failure_ignored else in_subshell(block)


_CHECKED_BY_PROTOCOL: Final = frozenset({COMMAND_PLUGIN})
"""Plugins whose parameters are checked with the rest of the file."""
