"""Task attempts that have a directory on this host, as the process and the docker backend know them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TypeVar

from openpai.backends.host.directory import TaskDirectory
from openpai.backends.host.register import Attempt
from openpai.lifecycle.model import ExitReport


@dataclass(slots=True, eq=False)
class HostAttempt(Attempt):
    """A task attempt whose files tell a later server what became of it."""

    directory: TaskDirectory = field(kw_only=True)

    def fence(self, report: ExitReport) -> None:
        """Keep a wrapper from beginning, and the report for a later server, as far as the disk lets us."""
        with contextlib.suppress(OSError):
            self.directory.fence()
            self.directory.write_report(report)


H = TypeVar("H", bound=HostAttempt)
