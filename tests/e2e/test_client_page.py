"""The page about the Python client: every block of it runs, in order, against a running platform."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.e2e.server import PASSWORD, ROOT, Server, logged_in, person

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_every_block_of_the_page_runs(tmp_path):
    server = Server.start(tmp_path / "platform")
    try:
        admin = logged_in(tmp_path / "home", server.url)
        blocks = BLOCK.findall((ROOT / "docs" / "client.md").read_text("utf-8"))
        assert len(blocks) >= 8
        told = subprocess.run(
            [sys.executable, "-c", "\n".join(blocks)],
            env=dict(admin.environment),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert told.returncode == 0, told.stderr
        for expected in (
            "as admin",
            "SUCCEEDED 0",
            "hello from a task",
            "ConflictJobError",
            "taskRoles.main",
            "instances",
        ):
            assert expected in told.stdout, told.stdout
    finally:
        server.end()


def test_a_token_from_standard_input_logs_in(tmp_path):
    server = Server.start(tmp_path / "platform")
    try:
        admin = logged_in(tmp_path / "home", server.url)
        token = admin("token", "create", "--scope", "read").out.strip()
        program = person(tmp_path / "program", server.url)
        told = program("login", "--token-stdin", "--json", stdin=token + "\n")
        assert told.json()["user"] == "admin", told.err
        assert token not in told.out
        assert program("job", "list").code == 0
        assert program("login", "--token-stdin", stdin="no-such-token\n").code == 4
        assert program("login", "--user", "admin", "--password-stdin", stdin=PASSWORD).code == 0
    finally:
        server.end()
