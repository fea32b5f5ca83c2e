"""Backup and restore by the very commands of the admin's guide, on a platform that is at work and then killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from openpai.client import Client
from tests.fork_server import PAI

from .server import PASSWORD, ROOT, Server, job_text, logged_in

COMMANDS = ("TOKEN='<% $secrets.token %>'", 'echo "the secret has ${#TOKEN} letters"')


def job_file(name: str) -> bytes:
    return job_text(name, *COMMANDS, secrets={"token": "open-sesame"}).encode()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server.start(tmp_path / "server")
    yield server
    server.end(signal.SIGKILL)


def commands_of(heading: str) -> list[str]:
    """Return what the console blocks under a heading of the admin's guide type, block by block."""
    section = (ROOT / "docs" / "admin.md").read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```console\n(.*?)```", section, re.DOTALL)
    return [re.sub(r"^\$ ", "", block, flags=re.MULTILINE) for block in blocks]


def typed(commands: str, data: Path, backup: Path) -> None:
    """Type commands into a shell, with other directories."""
    here = commands.replace("/var/lib/openpai", str(data)).replace("/backup", str(backup))
    assert here.count(str(data)), here
    path = f"{Path(PAI[0]).parent}:{os.environ['PATH']}"
    subprocess.run(["sh", "-euxc", here], check=True, env={**os.environ, "PATH": path})


def entered(server: Server) -> Client:
    """Return the administrator."""
    with Client(server.url) as stranger:
        return Client(server.url, stranger.login("admin", PASSWORD).token)


def test_a_backup_of_a_platform_at_work_is_restored_after_a_crash(server: Server, tmp_path: Path) -> None:
    data, backup = server.data_dir / "data", tmp_path / "kept"
    backup.mkdir()
    take, restore = commands_of("Back up and restore")
    acknowledged: list[str] = []
    is_enough, is_at_work = Event(), Event()

    with entered(server) as admin:

        def work() -> None:
            # Each job is three processes.
            while not is_enough.wait(0.2):
                acknowledged.append(admin.submit(job_file(f"before-{len(acknowledged)}")).full_name)
                if len(acknowledged) == 5:
                    is_at_work.set()

        working = Thread(target=work)
        working.start()
        try:
            assert is_at_work.wait(60)
            promised = list(acknowledged)
            typed(take, data, backup)
        finally:
            is_enough.set()
            working.join(60)
        admin.wait(promised[0])
        admin.submit(job_file("too-late"))
        server.end(signal.SIGKILL)
    # What the restored database must not be mixed with.
    assert (data / "openpai.db-wal").stat().st_size > 0
    typed(restore, data, backup)

    again = server.again()
    try:
        restored = logged_in(tmp_path / "home", again.url)
        for name in promised:
            assert restored("job", "wait", name).code == 0
        assert restored("job", "show", "too-late").code == 3
        assert restored("job", "clone", promised[0], "--name", "clone").code == 0
        assert restored("job", "wait", "clone").code == 0
        for name in (promised[0], "clone"):
            assert "11 letters" in restored("job", "logs", name).out
    finally:
        again.end(signal.SIGKILL)
