"""Removes the logs of an attempt, or what it left: out of sight at once, off the disk as soon as possible.

A task of a container may have put millions of files beside its logs. Who deletes a job waits for a bounded part of the
removal only; the rest goes with the next housekeeping, also after a restart.
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
"""How many entries a request waits for: about a second."""
_log: Final = structlog.get_logger(__name__)


def remove_logs(directory: str) -> None:
    """Take the logs in a directory away; harmless where there are none. What cannot be removed is logged."""
    goal = f"{os.path.dirname(directory)}/{_PREFIX}{secrets.token_hex(8)}"  # noqa: PTH120  # done for each task
    try:
        os.rename(directory, goal)  # noqa: PTH104
    except FileNotFoundError:
        return
    except OSError:
        # On a full disk there may be no room for a longer name.
        goal = directory
    removal = TreeRemoval(goal, opens_closed=True)
    try:
        removal.remove_some(_AT_ONCE)
    except OSError as error:
        _log.warning("logs cannot be removed", path=goal, error=str(error))
    finally:
        removal.close()


def remove_leftovers(root: Path) -> None:
    """Remove the rest of what `remove_logs` took away. Blocks for as long as that takes."""
    with os.scandir(root) as found:
        names = [entry.name for entry in found if entry.name.startswith(_PREFIX)]
    for name in names:
        try:
            remove_tree(f"{root}/{name}", opens_closed=True)
        except OSError as error:
            _log.warning("logs cannot be removed", path=f"{root}/{name}", error=str(error))
