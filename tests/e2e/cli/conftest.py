"""A real platform, started by the real command, and the real command to talk to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PASSWORD = "correct-horse-1"
READY_WITHIN_S = 60
PAI = [sys.executable, "-c", "from openpai.app.main import run; run()"]


@dataclass
class Server:
    """A platform in a process of its own."""

    process: subprocess.Popen[bytes]
    data_dir: Path
    url: str

    @classmethod
    def start(cls, data_dir: Path, port: int = 0) -> Server:
        """Start a platform and return once it answers."""
        data_dir.mkdir(parents=True, exist_ok=True)
        ready = data_dir / "ready.json"
        ready.unlink(missing_ok=True)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        options = [
            "--data-dir",
            str(data_dir / "data"),
            "--port",
            str(port),
            "--nodes",
            "4",
            "--ready-file",
            str(ready),
        ]
        with (data_dir / "server.log").open("ab") as log:
            process = subprocess.Popen(
                [*PAI, "up", *options],
                env=os.environ | {"PAI_ADMIN_PASSWORD": PASSWORD, "PATH": path},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + READY_WITHIN_S
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                pytest.fail(f"the platform did not start:\n{(data_dir / 'server.log').read_text()}")
            time.sleep(0.02)
        return cls(process, data_dir, json.loads(ready.read_text())["url"])

    def again(self) -> Server:
        """Start a platform on what this one left, at the same address."""
        return Server.start(self.data_dir, self.port)

    @property
    def port(self) -> int:
        """Return the port it listens on."""
        return int(self.url.rpartition(":")[2])

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it and return its exit code."""
        self.process.send_signal(how)
        return self.process.wait(20)


@dataclass
class Told:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Return the one JSON document on standard output; fails when there is anything else."""
        return json.loads(self.out)


@dataclass
class Person:
    """Somebody at a terminal, with credentials of their own."""

    environment: Mapping[str, str]

    def __call__(self, *arguments: str, stdin: str = "", within_s: float = 100) -> Told:
        """Run `pai` to its end."""
        told = subprocess.run(
            [*PAI, *arguments],
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
            cwd=ROOT,
        )
        return Told(told.returncode, told.stdout, told.stderr)

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Run `pai` and return at once."""
        return subprocess.Popen(
            [*PAI, *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )


def person(home: Path, url: str) -> Person:
    """Return somebody who has never logged in."""
    hidden = ("PAI_", "XDG_CONFIG_HOME")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    return Person(environment | {"XDG_CONFIG_HOME": str(home), "PAI_URL": url, "COLUMNS": "80"})


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a platform that all tests share."""
    running = Server.start(tmp_path_factory.mktemp("platform"))
    yield running
    assert running.end() == 0


@pytest.fixture
def password() -> str:
    """Return the administrator's password on every platform here."""
    return PASSWORD


@pytest.fixture
def stranger(server: Server, tmp_path: Path) -> Person:
    """Return somebody who has not logged in, with `tmp_path` as the place for their credentials."""
    return person(tmp_path, server.url)


@pytest.fixture(scope="session")
def pai(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Person:
    """Return the administrator, logged in."""
    admin = person(tmp_path_factory.mktemp("home"), server.url)
    told = admin("login", "--user", "admin", "--password-stdin", stdin=PASSWORD)
    assert told.code == 0, told.err
    return admin


@pytest.fixture
def new_pai(new_server: Server, tmp_path: Path) -> Person:
    """Return the administrator of the test's own platform."""
    admin = person(tmp_path / "home", new_server.url)
    assert admin("login", "--user", "admin", "--password-stdin", stdin=PASSWORD).code == 0
    return admin


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[Server]:
    """Return a platform of this test's own, which it may kill and start again."""
    running = Server.start(tmp_path / "platform")
    yield running
    if running.process.poll() is None:
        running.end()


@pytest.fixture
def job_file(tmp_path: Path) -> Callable[..., str]:
    """Return a maker of job files: one task role `main` that runs the given commands."""

    def write(name: str, *commands: str, **role: Any) -> str:
        image = {"type": "dockerimage", "name": "i", "uri": "busybox"}
        main = {
            "dockerImage": "i",
            "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0},
            "commands": list(commands),
            **role,
        }
        job = {"protocolVersion": 2, "name": name, "type": "job", "prerequisites": [image], "taskRoles": {"main": main}}
        path = tmp_path / f"{name}.yaml"
        path.write_text(json.dumps(job, indent=2))
        return str(path)

    return write
