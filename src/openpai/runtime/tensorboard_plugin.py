"""The plugin `tensorboard`: serves the logs of a job beside task 0 of its first task role."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from openpai.protocol.findings import Finding
from openpai.protocol.references import mapping
from openpai.runtime.plugin import PluginCommands, PluginContext

PORT: Final = 6006
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SPECIAL: Final = re.compile(r'(["\\`])')

_SCRIPT: Final = r"""[ "$PAI_TASK_INDEX" = 0 ] || exit 0
(
    if ! command -v tensorboard >/dev/null 2>&1; then
        echo "[openpai-runtime] tensorboard is not in this image and is installed"
        python3 -m pip install --quiet --disable-pip-version-check tensorboard </dev/null ||
            { echo "[openpai-runtime] tensorboard could not be installed; use an image that has it"; exit 1; }
    fi
    echo "[openpai-runtime] tensorboard serves on port @PORT@"
    exec tensorboard @LOGS@ --bind_all --port=@PORT@
) </dev/null >"${PAI_WORK_DIR:-/tmp}/tensorboard.log" 2>&1 &
"""


class TensorBoardPlugin:
    """Starts TensorBoard in the background; it ends with the task."""

    def faults(self, parameters: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield a port that is none, and a missing or wrong `logdir`."""
        port = parameters.get("port", PORT)
        if isinstance(port, bool) or not _is_port(port):
            yield Finding(("port",), "is not a port", "a number from 1 to 65535")
        logdir = parameters.get("logdir")
        if not isinstance(logdir, dict) or not logdir:
            yield Finding(("logdir",), "must name at least one directory", "a mapping of names to directories")
        for name, path in mapping(logdir).items():
            if not _NAME.fullmatch(str(name)):
                yield Finding(("logdir", name), "is not a name", "letters, digits, _, . and -")
            if not isinstance(path, str) or not path or "," in path:
                yield Finding(("logdir", name), "is not a directory", "a path without a comma")

    def commands(self, parameters: Mapping[str, Any], context: PluginContext) -> PluginCommands:
        """Return the script that starts TensorBoard, for the first task role only."""
        if context.role != next(iter(context.roles), context.role):
            return PluginCommands()
        # A path may hold variables, as in OpenPAI: /mnt/tensorboard/$PAI_JOB_NAME.
        logs = {str(name): _SPECIAL.sub(r"\\\1", str(path)) for name, path in mapping(parameters.get("logdir")).items()}
        if len(logs) == 1:
            text = f'--logdir="{next(iter(logs.values()))}"'
        else:
            text = '--logdir_spec="{}"'.format(",".join(f"{name}:{path}" for name, path in logs.items()))
        values = {"PORT": str(int(parameters.get("port", PORT))), "LOGS": text}
        return PluginCommands(re.sub("@([A-Z]+)@", lambda place: values[place[1]], _SCRIPT))


def _is_port(value: object) -> bool:
    text = str(value)
    return text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= 65535
