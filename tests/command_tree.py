"""Every command of `pai`, built once in a process: building all of them takes longer than most of their tests."""

from __future__ import annotations

from typing import Any, Final

import typer

from openpai.app.main import app
from openpai.app.pages.commands import walk

WHOLE: Final[Any] = typer.main.get_command(app)
WALKED: Final[tuple[tuple[tuple[str, ...], Any], ...]] = tuple(walk(WHOLE))
"""Each command and each group of commands, with its words from `pai` on."""
LEAVES: Final = tuple((path[1:], command) for path, command in WALKED if not hasattr(command, "commands"))
"""Each command, with its words behind `pai`."""
