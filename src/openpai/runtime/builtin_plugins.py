"""The plugins that every server has, and those of them that need only a few lines: `cmd` and `teamwise_storage`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from openpai.protocol.findings import Finding
from openpai.protocol.references import COMMAND_PLUGIN, entries, mapping
from openpai.protocol.storages import STORAGE_PLUGIN
from openpai.runtime.git_plugin import GitPlugin
from openpai.runtime.plugin import PluginCommands, PluginContext, RuntimePlugin
from openpai.runtime.ssh_plugin import SshPlugin
from openpai.runtime.tensorboard_plugin import TensorBoardPlugin


class CommandPlugin:
    """`cmd`: commands of the job file before and after the task's own; `protocol.references` checks them."""

    def faults(self, parameters: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield nothing: the commands are checked with the rest of the file."""
        return ()

    def commands(self, parameters: Mapping[str, Any], context: PluginContext) -> PluginCommands:
        """Return the commands as they are."""
        return PluginCommands(
            "\n".join([*_texts(parameters.get("preCommands")), *_callbacks(parameters, "taskStarts")]),
            "\n".join(_texts(parameters.get("postCommands"))),
            "\n".join(_callbacks(parameters, "taskSucceeds")),
        )


class StoragePlugin:
    """`teamwise_storage`: asks for storages, which the platform mounts before the task starts."""

    def faults(self, parameters: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield names of storages that are no names."""
        names = parameters.get("storageConfigNames")
        if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            message = "must be a list of names"
            yield Finding(("storageConfigNames",), message, "names of storages; none for the default ones")

    def commands(self, parameters: Mapping[str, Any], context: PluginContext) -> PluginCommands:
        """Return nothing to run."""
        return PluginCommands()


def _texts(value: object) -> Iterator[str]:
    """Yield the commands in a text or a list."""
    for text in (value,) if isinstance(value, str) else entries(value):
        yield str(text).strip()


def _callbacks(parameters: Mapping[str, Any], event: str) -> Iterator[str]:
    for callback in map(mapping, entries(parameters.get("callbacks"))):
        if callback.get("event") == event:
            yield from _texts(callback.get("commands"))


BUILT_IN: Final[Mapping[str, RuntimePlugin]] = {
    COMMAND_PLUGIN: CommandPlugin(),
    "git": GitPlugin(),
    "ssh": SshPlugin(),
    STORAGE_PLUGIN: StoragePlugin(),
    "tensorboard": TensorBoardPlugin(),
}
