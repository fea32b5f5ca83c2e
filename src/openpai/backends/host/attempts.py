"""Task attempts with a directory on this host, shared by the process and the docker backend."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TypeVar

from openpai.backends.host.directory import TaskDirectory
from openpai.backends.host.register import Attempt
from openpai.lifecycle.model import ExitReport


@dataclass(slots=True, eq=False)
class HostAttempt(Attempt):
    """A task attempt whose files record how it ended for a later server."""

    directory: TaskDirectory = field(kw_only=True)

    def fence(self, report: ExitReport) -> None:
        """Fence the attempt and store the report for a later server, as far as the disk allows."""
        with contextlib.suppress(OSError):
            self.directory.fence()
            self.directory.write_report(report)


H = TypeVar("H", bound=HostAttempt)
