"""Removes the logs or the kept work of an attempt: renamed at once, deleted from the disk as soon as possible.

A task in a container may have created millions of files beside its logs. A request that deletes a job waits for a
bounded part of the removal only; the next housekeeping removes the rest, also after a restart.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

import structlog

from openpai.system.removal import TreeRemoval, remove_tree

_PREFIX: Final = ".removed-"
_AT_ONCE: Final = 50_000
"""The number of entries that a request removes itself, in about a second."""
_log: Final = structlog.get_logger(__name__)


def remove_logs(directory: str) -> None:
    """Remove the logs in a directory; harmless if there are none. Failures are logged."""
    goal = f"{os.path.dirname(directory)}/{_PREFIX}{secrets.token_hex(8)}"  # noqa: PTH120  # done for each task
    try:
        os.rename(directory, goal)  # noqa: PTH104
    except FileNotFoundError:
        return
    except OSError:
        # On a full disk there may be no space for a longer name.
        goal = directory
    removal = TreeRemoval(goal, opens_closed=True)
    try:
        removal.remove_some(_AT_ONCE)
    except OSError as error:
        _log.warning("logs cannot be removed", path=goal, error=str(error))
    finally:
        removal.close()


def remove_leftovers(root: Path) -> None:
    """Remove the rest of the directories that `remove_logs` renamed. Blocks."""
    with os.scandir(root) as found:
        names = [entry.name for entry in found if entry.name.startswith(_PREFIX)]
    for name in names:
        try:
            remove_tree(f"{root}/{name}", opens_closed=True)
        except OSError as error:
            _log.warning("logs cannot be removed", path=f"{root}/{name}", error=str(error))
