"""The faults between a server and a simulated cluster; none by default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openpai.lifecycle.model import ExitReport
from openpai.ports.backend import Action, LaunchTask, TaskSeen

AT_ONCE: Final = (0,)


class Faults:
    """A network and nodes without faults. Derive from it to add faults.

    Delays are milliseconds: `()` loses a message, `(500,)` delays it, `(0, 3000)` delivers it twice. Messages
    with different delays overtake each other.
    """

    def delays_of_action(self, action: Action) -> Sequence[int]:
        """Return after how long, and how often, an action reaches the cluster."""
        return AT_ONCE

    def delays_of_news(self, seen: TaskSeen) -> Sequence[int]:
        """Return after how long, and how often, a piece of news reaches one server."""
        return AT_ONCE

    def launch_failure(self, launch: LaunchTask) -> ExitReport | None:
        """Return how this launch fails, or None."""
        return None
