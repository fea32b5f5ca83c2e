"""Which applications a job has: those that its file declares, and the TensorBoard of its plugin."""

from __future__ import annotations

from typing import Final

from openpai.protocol.applications import Application, declared
from openpai.protocol.job import JobSpec
from openpai.runtime.plugins import uses
from openpai.runtime.tensorboard_plugin import PORT

TENSORBOARD: Final = "tensorboard"
TOKEN: Final = "PAI_APPLICATION_TOKEN"  # noqa: S105  the name of a variable
"""The variable with the secret that the platform sends to the applications of a job with every request."""


def applications_of(spec: JobSpec) -> tuple[Application, ...]:
    """Return the applications of a job, in the order of its file."""
    roles = tuple([role.name for role in spec.task_roles])
    found = declared(spec.extras, roles)
    if any(one.name == TENSORBOARD for one in found):
        return found
    for use in uses(spec):
        # The plugin serves beside task 0 of the first task role only.
        if use.name == TENSORBOARD and roles[0] in use.roles:
            port = str(use.parameters.get("port", PORT))
            # A port may be a reference, which only a task's own commands resolve.
            if port.isascii() and port.isdecimal() and 1 <= int(port[:6]) <= 65535:
                return (*found, Application(TENSORBOARD, roles[0], 0, int(port), "TensorBoard"))
    return found
