"""Writes the generated pages of the documentation: `python -m openpai.app.pages docs`.

They are written from the values that the platform uses, and a test fails when a page is out of date. With `--check`
nothing is written: outdated pages are listed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from openpai.app.pages.client_model import client_model
from openpai.app.pages.commands import commands
from openpai.app.pages.dashboards import DASHBOARDS, dashboard
from openpai.app.pages.exit_codes import exit_codes
from openpai.app.pages.job_states import job_states
from openpai.app.pages.metrics import metrics
from openpai.app.pages.permissions import permissions
from openpai.app.pages.protocol import protocol
from openpai.app.pages.rest import rest
from openpai.app.pages.settings import settings

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "job-states.md": job_states,
    "exit-codes.md": exit_codes,
    "rest.md": rest,
    "permissions.md": permissions,
    "protocol.md": protocol,
    "cli.md": commands,
    "settings.md": settings,
    "metric-names.md": metrics,
    "../src/openpai/client/model.py": client_model,
    **{f"../deploy/chart/files/dashboards/{name}.json": partial(dashboard, name) for name in DASHBOARDS},
}


def outdated(directory: Path) -> dict[Path, str]:
    """Return the outdated pages, each with its new text."""
    made = {directory / name: make() for name, make in PAGES.items()}
    return {path: text for path, text in made.items() if not path.exists() or path.read_text("utf-8") != text}


def main() -> int:
    """Write or check the pages; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m openpai.app.pages", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directory", type=Path, help="where the pages are")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page is out of date")
    given = parser.parse_args()
    found = outdated(given.directory)
    for path, text in found.items():
        if not given.check:
            path.write_text(text, "utf-8")
        sys.stdout.write(f"{path}: {'out of date' if given.check else 'written'}\n")
    return 1 if given.check and found else 0


if __name__ == "__main__":
    sys.exit(main())
