"""A real platform, started by the real command in a process of its own, and people who talk to it with that command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import chdir
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from tests.fork_server import start_pai
from tests.outcome import Outcome, run_pai
from tests.pauses import Pauses

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "correct-horse-1"
WITHIN_S = 120
FINAL = ("SUCCEEDED", "FAILED", "STOPPED")
PROGRAMS = Path(sys.executable).parent
# On a busy machine a server takes longer to start again than a client tries by itself.
PATIENT = """
from openpai.client import following, retry
following.TRIES = retry.TRIES = following.TRIES_IN_A_ROW = 10_000
from openpai.app.main import run
run()
"""


@dataclass
class Server:
    """A platform in a process of its own."""

    process: subprocess.Popen[bytes]
    data_dir: Path
    url: str
    options: tuple[str, ...] = ()
    path: Path = PROGRAMS
    constants: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def start(
        cls, data_dir: Path, port: int = 0, *options: str, path: Path = PROGRAMS, constants: Mapping[str, float] = {}
    ) -> Server:
        """Start a platform and return once it answers; its tasks find the programs in `path` first.

        `constants` replaces some of its constants, as `start_pai` does.
        """
        # Shells of tasks read no files of whoever runs the tests.
        home = data_dir / "home"
        home.mkdir(parents=True, exist_ok=True)
        ready = data_dir / "ready.json"
        ready.unlink(missing_ok=True)
        where = ["--port", str(port), "--ready-file", str(ready)]
        if "--data-dir" not in options:
            where += ["--data-dir", str(data_dir / "data")]
        search = f"{path}{os.pathsep}{os.environ['PATH']}"
        with (data_dir / "server.log").open("ab") as log:
            words = ["up", *where, "--nodes", "4", *options]
            own = environment(PAI_ADMIN_PASSWORD=PASSWORD, PATH=search, HOME=str(home))
            process = start_pai(words, own, log, constants)
        server = cls(process, data_dir, "", options, path, constants)
        try:
            until(lambda: ready.exists() or process.poll() is not None, "it answers")
            server.url = json.loads(ready.read_text())["url"]
        except (AssertionError, OSError):
            process.kill()
            pytest.fail(f"the platform did not start:\n{server.log()}")
        return server

    def again(self) -> Server:
        """Start a platform on what this one left, at the same address."""
        return Server.start(self.data_dir, self.port, *self.options, path=self.path, constants=self.constants)

    @property
    def port(self) -> int:
        """Return the port it listens on."""
        return int(self.url.rpartition(":")[2])

    @cached_property
    def http(self) -> httpx.Client:
        """The administrator's client of its API."""
        http = httpx.Client(base_url=f"{self.url}/api/v2", timeout=WITHIN_S)
        login = http.post("/authn/basic/login", json={"username": "admin", "password": PASSWORD})
        http.headers["Authorization"] = f"Bearer {login.raise_for_status().json()['token']}"
        return http

    def get(self, path: str) -> Any:
        """Return the document at a path; it must be there."""
        answer = self.http.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def submit(self, name: str, *commands: str, **more: Any) -> httpx.Response:
        """Submit the administrator's job that runs these commands."""
        return self.http.post("/jobs", content=job_text(name, *commands, **more))

    def state(self, name: str) -> str:
        """Return the state of the administrator's job."""
        return str(self.get(f"/jobs/admin~{name}")["jobStatus"]["state"])

    def ended(self, name: str) -> str:
        """Wait until a job has ended, and return how."""
        until(lambda: self.state(name) in FINAL, f"{name} ends")
        return self.state(name)

    def stop_jobs(self) -> None:
        """Stop the administrator's jobs: tasks of a real backend outlive their server."""
        for job in self.get("/jobs"):
            if job["state"] not in FINAL:
                self.http.put(f"/jobs/admin~{job['name']}/executionType", json={"value": "STOP"})
                self.ended(job["name"])

    def log(self) -> str:
        """Return what it printed, also before it was started again."""
        return (self.data_dir / "server.log").read_text()

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it, if it has not ended, and return its exit code."""
        if "http" in vars(self):
            vars(self).pop("http").close()
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(WITHIN_S)


def refused(*options: object, code: int = 2, lines_max: int = 2) -> str:
    """Start a server that has to refuse, in this process; return what it said on standard error."""
    port = () if "--port" in options else ("--port", "0")
    with patch.dict(os.environ, environment(PAI_ADMIN_PASSWORD=PASSWORD, COLUMNS="200"), clear=True):
        message = run_pai("up", *port, *map(str, options))
    assert (message.code, message.out) == (code, ""), message
    assert "Traceback" not in message.err
    assert 1 <= len(message.err.strip().splitlines()) <= lines_max, message.err
    return message.err


def environment(**more: str) -> dict[str, str]:
    """Return an environment without the settings of the user who runs the tests."""
    hidden = ("PAI_", "XDG_CONFIG_HOME")
    return {key: value for key, value in os.environ.items() if not key.startswith(hidden)} | more


def until(is_so: Callable[[], bool], what: str) -> None:
    """Wait for what other processes bring about."""
    deadline, pauses = time.monotonic() + WITHIN_S, Pauses()
    while not is_so():
        assert time.monotonic() < deadline, f"not within {WITHIN_S} s: {what}"
        time.sleep(pauses.next_s())


def job_text(name: str, *commands: str, image: str = "busybox", role: Mapping[str, Any] = {}, **more: Any) -> str:
    """Return the file of a job with one task role, `worker`; `role` and `more` change keys of the role and the job."""
    resources = {"cpu": 1, "memoryMB": 64, "gpu": 0}
    worker = {"dockerImage": "i", "resourcePerInstance": resources, "commands": commands, **role}
    images = [{"type": "dockerimage", "name": "i", "uri": image}]
    job = {"protocolVersion": 2, "name": name, "type": "job", "prerequisites": images, "taskRoles": {"worker": worker}}
    return json.dumps(job | more, indent=2)


@dataclass
class Person:
    """A person at a terminal, with credentials of their own."""

    environment: Mapping[str, str]

    def __call__(self, *arguments: str, stdin: str = "") -> Outcome:
        """Run `pai` to its end, in this process."""
        with patch.dict(os.environ, self.environment, clear=True), chdir(ROOT):
            return run_pai(*arguments, stdin=stdin)

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Run `pai`, which never gives up on the server, in a process of its own; return at once."""
        return subprocess.Popen(
            [sys.executable, "-c", PATIENT, *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )


def person(home: Path, url: str) -> Person:
    """Return a person who has never logged in."""
    return Person(environment(XDG_CONFIG_HOME=str(home), PAI_URL=url, COLUMNS="80"))


def logged_in(home: Path, url: str) -> Person:
    """Return the administrator of the platform at `url`."""
    admin = person(home, url)
    message = admin("login", "--user", "admin", "--password-stdin", stdin=PASSWORD)
    assert message.code == 0, message.err
    return admin
