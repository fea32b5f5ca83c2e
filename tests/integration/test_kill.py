"""`kill -9` of the real server, again and again, at random moments, while people submit and stop jobs.

Every task writes into one book when it starts and when it ends, under a lock that only a living process holds. So
the book itself proves that no task ran twice, and the exit codes prove that none was guessed.

By hand, with more kills: PAI_KILLS=50 python -m pytest tests/integration/test_kill.py
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.e2e.server import FINAL, PASSWORD, job_text
from tests.fork_server import start_pai
from tests.ports import free_port

pytestmark = pytest.mark.full
KILLS: Final = int(os.environ.get("PAI_KILLS", "4"))
SEED: Final = int(os.environ.get("PAI_KILL_SEED", "1"))
# The lock is held by the shell and its children for as long as any of them lives.
TASK: Final = """\
exec 9>>'{book}.{name}.lock'
flock -n 9 || echo 'twice {name}' >>'{book}'
echo 'start {name}' >>'{book}'
sleep {run_s}
echo 'end {name}' >>'{book}'
exit {code}
"""


@dataclass
class Platform:
    """A server that is killed and started again at the same address, on the same data."""

    root: Path
    database_url: str
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def ready_file(self) -> Path:
        """Return where the server says that it answers."""
        return self.root / "ready.json"

    def start(self) -> subprocess.Popen[bytes]:
        """Start a server and return at once."""
        self.ready_file.unlink(missing_ok=True)
        options = ["--data-dir", self.root / "data", "--port", self.port, "--nodes", 4, "--ready-file", self.ready_file]
        with (self.root / "server.log").open("ab") as log:
            env = os.environ | {"PAI_ADMIN_PASSWORD": PASSWORD, "PAI_DATABASE_URL": self.database_url}
            self.process = start_pai(["up", *map(str, options)], env, log)
        return self.process

    def wait_until_ready(self) -> str:
        """Wait until the server answers and return its URL."""
        deadline = time.monotonic() + 60
        while not self.ready_file.exists():
            assert self.process is not None
            assert self.process.poll() is None, (self.root / "server.log").read_text()[-3000:]
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.02)
        url: str = json.loads(self.ready_file.read_text())["url"]
        return url

    def kill(self) -> None:
        """Kill the server as the out-of-memory killer would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()


@dataclass
class People:
    """A user who submits and stops jobs all the time and remembers what was acknowledged."""

    url: str
    token: str
    book: Path
    chance: random.Random
    codes: dict[str, int] = field(default_factory=dict)
    """Exit code of every job that was sent, acknowledged or not."""
    acknowledged: set[str] = field(default_factory=set)
    stopped: set[str] = field(default_factory=set)
    is_over: threading.Event = field(default_factory=threading.Event)
    unexpected: list[str] = field(default_factory=list)

    def live(self) -> None:
        """Submit and stop until it is over."""
        with httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=60) as http:
            # The pace of the load, not a wait for anything.
            while not self.is_over.wait(0.08):
                try:
                    self._do_something(http)
                except httpx.TransportError:
                    continue

    def _do_something(self, http: httpx.Client) -> None:
        running = sorted(self.acknowledged - self.stopped)
        if running and self.chance.random() < 0.2:
            name = self.chance.choice(running[-10:])
            answer = http.put(f"/api/v2/jobs/admin~{name}/executionType", json={"value": "STOP"})
            if answer.status_code == 202:
                self.stopped.add(name)
        else:
            name = f"j{len(self.codes)}"
            self.codes[name] = self.chance.choice((0, 0, 3, 77))
            answer = http.post("/api/v2/jobs", content=self._job(name), headers={"Content-Type": "text/yaml"})
            if answer.status_code == 202:
                self.acknowledged.add(name)
        if answer.status_code not in (202, 503):
            self.unexpected.append(f"{name}: {answer.status_code} {answer.text}")

    def _job(self, name: str) -> str:
        run_s = self.chance.choice((0, 0.2, 0.5, 2))
        commands = TASK.format(book=self.book, name=name, run_s=run_s, code=self.codes[name])
        resources = {"cpu": 1, "memoryMB": 32, "gpu": 0}
        return job_text(name, *commands.splitlines(), role={"resourcePerInstance": resources})


@pytest.fixture
def platform(tmp_path: Path, empty_url: str) -> Any:
    if shutil.which("flock") is None:
        pytest.skip("flock is not on this machine")
    made = Platform(tmp_path, empty_url, free_port())
    yield made
    if made.process is not None and made.process.poll() is None:
        made.kill()
    for pid in processes_of(tmp_path):
        os.kill(pid, signal.SIGKILL)


def processes_of(root: Path) -> list[int]:
    """Return the numbers of all processes that a task of this data directory left behind."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"OPENPAI_TASK_DIRECTORY={root}".encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


@pytest.mark.timeout(60 + 40 * KILLS)
def test_a_server_that_is_killed_loses_nothing_and_runs_nothing_twice(platform: Platform):
    chance = random.Random(SEED)
    platform.start()
    url = platform.wait_until_ready()
    login = httpx.post(f"{url}/api/v2/authn/basic/login", json={"username": "admin", "password": PASSWORD})
    people = People(url, login.json()["token"], platform.root / "book", chance)
    load = threading.Thread(target=people.live)
    load.start()
    try:
        for number in range(KILLS):
            # Every third server dies at some moment of its start.
            if number % 3:
                platform.wait_until_ready()
            time.sleep(chance.uniform(0, 1.2))
            platform.kill()
            platform.start()
        platform.wait_until_ready()
    finally:
        people.is_over.set()
        load.join()
    states = ended(people)
    assert platform.process is not None
    platform.process.terminate()
    assert platform.process.wait(60) == 0
    assert not people.unexpected
    assert people.acknowledged
    check(people, states)
    assert processes_of(platform.root) == []


def ended(people: People) -> dict[str, dict[str, Any]]:
    """Wait until every job has ended and return them all by name."""
    deadline = time.monotonic() + 120
    with httpx.Client(base_url=people.url, headers={"Authorization": f"Bearer {people.token}"}, timeout=60) as http:
        while True:
            jobs = {job["name"]: job for job in http.get("/api/v2/jobs", params={"limit": 5000}).json()}
            left = [name for name, job in jobs.items() if job["state"] not in FINAL]
            if not left:
                return jobs
            assert time.monotonic() < deadline, f"these jobs never end: {left}"
            time.sleep(0.1)


def check(people: People, jobs: dict[str, dict[str, Any]]) -> None:
    """Compare what the platform says with what was acknowledged and with what the tasks wrote."""
    assert people.acknowledged <= jobs.keys(), "an acknowledged job is lost"
    book = Counter(people.book.read_text().splitlines())
    assert not [line for line in book if line.startswith("twice")]
    assert not {line: count for line, count in book.items() if count > 1}, "a task ran twice"
    for name, job in jobs.items():
        code = people.codes[name]
        if job["state"] == "STOPPED":
            continue
        assert (book[f"start {name}"], book[f"end {name}"]) == (1, 1), name
        assert job["state"] == ("FAILED" if code else "SUCCEEDED"), name
        assert job["appExitCode"] == code, name
    for name in people.stopped:
        assert jobs[name]["state"] in FINAL
