"""Records the newest grant number of each device.

A launch that was believed lost may arrive after its device was granted to another task; the device must then refuse
it. On a host, each new grant is appended to a file before the launch goes on. Only launches with devices cost a write.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from openpai.lifecycle.model import ExitReason, ExitReport
from openpai.ports.backend import LaunchTask

_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


class NewestGrants:
    """The newest grant for each device of each node, in memory."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, int], int] = {}

    def hear(self, launch: LaunchTask) -> ExitReport | None:
        """Record a launch's grant; return a report if one of its devices has a newer grant.

        The grant is recorded for its other devices all the same. Raise OSError if it cannot be recorded.
        """
        grant, node = launch.grant, launch.node
        newer = [newest for device in launch.devices if (newest := self._newest_of(node, device)) > grant]
        fresh = [device for device in launch.devices if self._newest_of(node, device) < grant]
        if fresh:
            self._record(node, fresh, grant)
            self._newest.update({(node, device): grant for device in fresh})
        if not newer:
            return None
        message = f"grant {grant} came too late: grant {newer[0]} is newer"
        return ExitReport(1, ExitReason.STALE_GRANT, message)

    def _newest_of(self, node: str, device: int) -> int:
        return self._newest.get((node, device), -1)

    def _record(self, node: str, devices: Sequence[int], grant: int) -> None:
        """Store the grant beyond the life of the server, where there is a place for it."""


class GrantFile(NewestGrants):
    """Keeps the newest grants in a file beyond the life of the server."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        for line in path.read_text().splitlines() if path.exists() else ():
            node, _, numbers = line.rpartition("\t")
            words = numbers.split()
            # The launch of an incomplete line was never carried out.
            if node and len(words) == 3 and words[2] == ".":
                device, grant = int(words[0]), int(words[1])
                self._newest[node, device] = max(grant, self._newest_of(node, device))
        self._rewrite(path)
        self._file = os.open(path, _FLAGS, 0o600)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _record(self, node: str, devices: Sequence[int], grant: int) -> None:
        os.write(self._file, "".join(_line(node, device, grant) for device in devices).encode())

    def _rewrite(self, path: Path) -> None:
        fresh = path.with_suffix(".new")
        fresh.touch(0o600)
        fresh.write_text("".join(_line(node, device, grant) for (node, device), grant in self._newest.items()))
        fresh.replace(path)


def _line(node: str, device: int, grant: int) -> str:
    return f"{node}\t{device} {grant} .\n"
