"""What a runtime plugin is: an object that checks its parameters and writes the shell text that a task runs for it.

Our own plugins are in `builtin_plugins`. Third parties install theirs as Python entry points of the group
`openpai.runtime_plugins`; the name of the entry point is the plugin's name in job files. A plugin runs in the server,
once per task role and launch, so it must return soon and touch nothing; its shell text runs in the task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from openpai.protocol.findings import Finding

ENTRY_POINTS: Final = "openpai.runtime_plugins"
"""The group of entry points under which plugins are installed."""


@dataclass(frozen=True, slots=True)
class PluginKeys:
    """SSH keys for a job: the pair that its tasks share, and the public keys of its owner."""

    private: str = field(default="", repr=False)
    public: str = ""
    owner: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PluginContext:
    """The task role that shell text is for. Which of its tasks runs the text, the text finds in its variables."""

    user: str
    job: str
    role: str
    roles: Mapping[str, int] = field(default_factory=dict)
    """How many tasks each task role has, in the order of the job file."""
    is_gang: bool = True
    keys: PluginKeys = PluginKeys()
    is_for: frozenset[str] = frozenset()
    """The task roles that use the plugin."""


@dataclass(frozen=True, slots=True)
class PluginCommands:
    """Shell text around the task's own commands; each text runs in a shell of its own, which ends at a failure."""

    before: str = field(default="", repr=False)
    after: str = field(default="", repr=False)
    """Runs however the task's commands ended; `PAI_TASK_EXIT_CODE` has their exit code."""
    after_success: str = field(default="", repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables of the task's own commands. A value is shell text within double quotes, so `$PATH` is replaced."""


class RuntimePlugin(Protocol):
    """A kind of plugin that job files can name."""

    def faults(self, parameters: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield what is wrong with parameters, with paths below them. References in them are not replaced yet."""

    def commands(self, parameters: Mapping[str, Any], context: PluginContext) -> PluginCommands:
        """Return the shell text for the tasks of a role; in `parameters` all references are replaced."""
