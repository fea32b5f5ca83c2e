"""A real platform, started by the real command in a process of its own, and people who talk to it with that command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.outcome import Outcome, run_pai

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "correct-horse-1"
READY_WITHIN_S = 60
PROGRAMS = Path(sys.executable).parent
PAI = [sys.executable, "-c", "from openpai.app.main import run; run()"]


@dataclass
class Server:
    """A platform in a process of its own."""

    process: subprocess.Popen[bytes]
    data_dir: Path
    url: str
    options: tuple[str, ...] = ()
    path: Path = PROGRAMS

    @classmethod
    def start(cls, data_dir: Path, port: int = 0, *options: str, path: Path = PROGRAMS) -> Server:
        """Start a platform and return once it answers; its tasks find the programs in `path` first."""
        data_dir.mkdir(parents=True, exist_ok=True)
        ready = data_dir / "ready.json"
        ready.unlink(missing_ok=True)
        where = ["--port", str(port), "--ready-file", str(ready)]
        if "--data-dir" not in options:
            where += ["--data-dir", str(data_dir / "data")]
        search = f"{path}{os.pathsep}{os.environ['PATH']}"
        with (data_dir / "server.log").open("ab") as log:
            process = subprocess.Popen(
                [*PAI, "up", *where, "--nodes", "4", *options],
                env=os.environ | {"PAI_ADMIN_PASSWORD": PASSWORD, "PATH": search},
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
        return cls(process, data_dir, json.loads(ready.read_text())["url"], options, path)

    def again(self) -> Server:
        """Start a platform on what this one left, at the same address."""
        return Server.start(self.data_dir, self.port, *self.options, path=self.path)

    @property
    def port(self) -> int:
        """Return the port it listens on."""
        return int(self.url.rpartition(":")[2])

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it and return its exit code."""
        self.process.send_signal(how)
        return self.process.wait(60)


@dataclass
class Person:
    """A person at a terminal, with credentials of their own."""

    environment: Mapping[str, str]

    def __call__(self, *arguments: str, stdin: str = "") -> Outcome:
        """Run `pai` to its end, in this process."""
        with patch.dict(os.environ, self.environment, clear=True), chdir(ROOT):
            return run_pai(*arguments, stdin=stdin)

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Run `pai` in a process of its own and return at once."""
        return subprocess.Popen(
            [*PAI, *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )


def person(home: Path, url: str) -> Person:
    """Return a person who has never logged in."""
    hidden = ("PAI_", "XDG_CONFIG_HOME")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    return Person(environment | {"XDG_CONFIG_HOME": str(home), "PAI_URL": url, "COLUMNS": "80"})


def logged_in(home: Path, url: str) -> Person:
    """Return the administrator of the platform at `url`."""
    admin = person(home, url)
    message = admin("login", "--user", "admin", "--password-stdin", stdin=PASSWORD)
    assert message.code == 0, message.err
    return admin
