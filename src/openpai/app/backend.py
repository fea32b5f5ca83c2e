"""Which backend runs the tasks, made from the settings. The others are not even imported."""

from __future__ import annotations

from openpai.app.datadir import DataDir
from openpai.app.settings import Settings
from openpai.ports.backend import Backend
from openpai.ports.clock import Clock


def open_backend(settings: Settings, data: DataDir, clock: Clock) -> Backend:
    """Return the backend that the settings name, not opened yet."""
    if settings.backend == "process":
        from openpai.backends.process.backend import ProcessBackend

        return ProcessBackend(
            data.tasks / "process",
            data.logs,
            clock,
            nodes=settings.nodes or 1,
            gpus_per_node=settings.gpus_per_node,
        )
    raise NotImplementedError
