"""Programs that VS Code's Remote-SSH would bring to a host, as one archive: its real server, or a stand-in for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

STAND_IN = Path(__file__).with_name("stand_in.py")
INSTALL = "npm install --global code-server"
_PARTS = ("out", "node_modules", "bin", "package.json", "product.json")


def real_server(to: Path) -> Path:
    """Write an archive of VS Code's server and of Node.js, as Microsoft's archives have both; skip without them.

    npm's package `code-server` contains Microsoft's server. VSCODE_SERVER names a directory with one.
    """
    node = shutil.which("node")
    program = shutil.which("code-server")
    place = Path(program).resolve().parents[2] / "lib/vscode" if program else Path("/nonexistent")
    place = Path(os.environ.get("VSCODE_SERVER", place))
    if node is None or not (place / "out/server-main.js").exists():
        pytest.skip(f"VS Code's server is not installed: {INSTALL}, or name its directory in VSCODE_SERVER")
    if not (place / "node_modules/@vscode/spdlog/build/Release/spdlog.node").exists():
        pytest.skip(f"the native modules of VS Code's server in {place} are not built: npm rebuild")
    parts = [part for part in _PARTS if (place / part).exists()]
    subprocess.run(
        ["tar", "-c", "--exclude=*.map", "-f", str(to), "-C", str(place), *parts,
         "-C", str(Path(node).resolve().parent), "node"],
        check=True,
    )  # fmt: skip
    return to


def stand_in(to: Path) -> Path:
    """Write an archive of the stand-in, which the Python of these tests runs."""
    start = to.with_suffix(".sh")
    start.write_text(f'exec "{sys.executable}" "{STAND_IN}" "$@"\n')
    with tarfile.open(to, "w") as archive:
        archive.add(start, "bin/code-server-oss")
    return to
