"""The newest grant number each device has heard, kept over the server's life.

A launch that was believed lost may arrive after its device was granted to somebody else; the device must then know
better. What is heard is appended to a file before it is acted upon. Only launches with devices cost a write.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


class NewestGrants:
    """Knows for each device of each node the newest grant heard of."""

    def __init__(self, path: Path) -> None:
        self._newest: dict[tuple[str, int], int] = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            node, _, numbers = line.rpartition("\t")
            words = numbers.split()
            # A line that a dying server could not finish was not acted upon either.
            if node and len(words) == 3 and words[2] == ".":
                self._learn(node, int(words[0]), int(words[1]))
        self._rewrite(path)
        self._file = os.open(path, _FLAGS, 0o600)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def newer_than(self, grant: int, node: str, devices: Iterable[int]) -> tuple[int, int] | None:
        """Return a device whose newest grant is newer than `grant`, with that grant, or None."""
        for device in devices:
            newest = self._newest.get((node, device), grant)
            if newest > grant:
                return device, newest
        return None

    def hear(self, grant: int, node: str, devices: Iterable[int]) -> None:
        """Remember the grant for these devices. Raise OSError when that cannot be written down."""
        news = [device for device in devices if self._newest.get((node, device), grant - 1) < grant]
        if news:
            os.write(self._file, "".join(_line(node, device, grant) for device in news).encode())
        for device in news:
            self._learn(node, device, grant)

    def _learn(self, node: str, device: int, grant: int) -> None:
        self._newest[node, device] = max(grant, self._newest.get((node, device), grant))

    def _rewrite(self, path: Path) -> None:
        fresh = path.with_suffix(".new")
        fresh.touch(0o600)
        fresh.write_text("".join(_line(node, device, grant) for (node, device), grant in self._newest.items()))
        fresh.replace(path)


def _line(node: str, device: int, grant: int) -> str:
    return f"{node}\t{device} {grant} .\n"
