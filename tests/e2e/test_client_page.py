"""The page about the Python client: every block of it runs, in order, against a running platform."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from openpai.client import AsyncClient, Client
from tests.e2e.server import ROOT, Server, logged_in

PAGE = (ROOT / "docs" / "client.md").read_text("utf-8")
BLOCKS = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
# What the methods are made of; these are no requests.
MACHINERY = {"ask", "close", "from_environment", "is_awaited", "is_blocking", "log_places", "path"}


def test_the_page_names_every_method_there_is_and_no_other():
    named = set(re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| .*", PAGE.partition("| About |")[2], re.MULTILINE))))
    for client in (Client, AsyncClient):
        assert named == {name for name in dir(client) if not name.startswith("_")} - MACHINERY


def test_every_block_of_the_page_runs(tmp_path):
    server = Server.start(tmp_path / "platform")
    try:
        admin = logged_in(tmp_path / "home", server.url)
        message = subprocess.run(
            [sys.executable, "-c", BLOCKS],
            env=dict(admin.environment),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert message.returncode == 0, message.stderr
        for expected in (
            "as admin",
            "SUCCEEDED 0",
            "hello from a task",
            "ConflictJobError",
            "taskRoles.main",
            "instances",
        ):
            assert expected in message.stdout, message.stdout
    finally:
        server.end()


def test_every_block_of_the_page_satisfies_a_strict_type_checker(tmp_path):
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    (tmp_path / "page.py").write_text(BLOCKS)
    message = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={ROOT / '.mypy_cache'}", str(tmp_path / "page.py")],
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert message.returncode == 0, message.stdout
