"""Writes the output of simulated tasks to the files where the logs of real tasks are."""

from __future__ import annotations

from pathlib import Path

from openpai.lifecycle.model import AttemptKey


class LogFiles:
    """Appends to `root/<attempt>/stdout.log`; give its `say` to a `SimulatedCluster`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def say(self, key: AttemptKey, text: str) -> None:
        """Append `text` to the attempt's standard output; it is lost if it cannot be written, as on a full disk."""
        directory = self._root / key.path()
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with (directory / "stdout.log").open("a") as log:
                log.write(text)
        except OSError:
            return
