"""The platform as a Python library: log in, submit a job file, watch it, read its logs, stop it.

    from openpai.client import Client

    with Client.from_environment() as pai:
        job = pai.submit(Path("hello.yaml").read_bytes())
        print(pai.wait(job.full_name).state)

Jobs are named `user~job`, or just `job` for one's own. Everything that goes wrong is a Refused, an Unavailable or
a Broken of `openpai.protocol.errors`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import httpx

from openpai.client import credentials as kept
from openpai.client.logs import AttemptLogs
from openpai.client.model import Event, JobDetail, JobPage, JobSummary, Login, LogPiece, NodeView, Submitted, Wait
from openpai.client.transport import Transport
from openpai.protocol.errors import Refused, Unavailable

API: Final = "/api/v2"
POLL_FIRST_S: Final = 0.1
POLL_MAX_S: Final = 2.0


class Client:
    """A connection to one platform on behalf of one person. Close it, or use it in a `with`."""

    def __init__(
        self,
        url: str = kept.URL_DEFAULT,
        token: str | None = None,
        *,
        user: str | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = kept.normal_url(url)
        self.user = user
        self._sleep = sleep
        self._clock = clock
        self._wire = Transport(self.url, token, transport=transport, sleep=sleep)

    @classmethod
    def from_environment(cls, url: str | None = None) -> Client:
        """Return a client with the credentials of the latest `pai login`, or of `PAI_URL` and `PAI_TOKEN`."""
        found = kept.load(url)
        return cls(found.url, found.token, user=found.user)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._wire.close()

    def _get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        return self._wire.send("GET", f"{API}{path}", params=params).json()

    # Who we are

    def info(self) -> Mapping[str, Any]:
        """Return what the server says about itself: name, version, how to log in."""
        answer: Mapping[str, Any] = self._get("/info")
        return answer

    def login(self, username: str, password: str, expiration_s: int | None = None) -> Login:
        """Return a new login; this client does not use its token by itself."""
        body: dict[str, Any] = {"username": username, "password": password}
        if expiration_s is not None:
            body["expiration"] = expiration_s
        return Login.read(self._wire.send("POST", f"{API}/authn/basic/login", json=body).json())

    def whoami(self) -> str:
        """Return the name of the user this client's token belongs to."""
        return str(self._get("/tokens/check")["username"])

    def logout(self) -> None:
        """Revoke this client's token."""
        self._wire.send("DELETE", f"{API}/authn/basic/logout")

    # Jobs

    def submit(self, text: bytes | str) -> Submitted:
        """Submit a job file; the platform has promised to run it when this returns."""
        content = text.encode() if isinstance(text, str) else text
        headers = {"Content-Type": "text/yaml"}
        return Submitted.read(self._wire.send("POST", f"{API}/jobs", content=content, headers=headers).json())

    def jobs(self, *, limit: int = 20, offset: int = 0, **where: str) -> JobPage:
        """Return one page of jobs, newest first. `where` takes the API's filters: username, vc, state, keyword, ..."""
        params = {"limit": str(limit), "offset": str(offset), "withTotalCount": "true"}
        params |= {key: value for key, value in where.items() if value}
        answer = self._get("/jobs", params)
        jobs = tuple(JobSummary.read(document) for document in answer["data"])
        return JobPage(jobs, answer["totalCount"], answer)

    def job(self, name: str, attempt: int | None = None) -> JobDetail:
        """Return a job with its tasks: in its newest attempt, or in attempt number `attempt`."""
        path = self.path(name) if attempt is None else f"{self.path(name)}/attempts/{attempt}"
        return JobDetail.read(self._get(path))

    def config(self, name: str) -> str:
        """Return the job's file, with its secrets masked."""
        return self._wire.send("GET", f"{API}{self.path(name)}/config").text

    def events(self, name: str, kind: str | None = None) -> tuple[Event, ...]:
        """Return the job's history, newest first; `kind` keeps only Normal or only Warning events."""
        answer = self._get(f"{self.path(name)}/events", {"type": kind} if kind else None)
        return tuple(Event.read(document) for document in answer["data"])

    def why(self, name: str) -> tuple[Wait, ...]:
        """Return why the job waits; empty when nothing of it waits."""
        return tuple(Wait.read(document) for document in self._get(f"{self.path(name)}/why")["waits"])

    def stop(self, name: str) -> None:
        """Let a job end; harmless when it is over."""
        self._wire.send("PUT", f"{API}{self.path(name)}/executionType", json={"value": "STOP"})

    def start(self, name: str) -> None:
        """Let a finished job run again as a new attempt."""
        self._wire.send("PUT", f"{API}{self.path(name)}/executionType", json={"value": "START"})

    def wait(self, name: str, timeout_s: float | None = None) -> JobDetail:
        """Return the job once it is over; raise Unavailable when that takes longer than `timeout_s`."""
        deadline = None if timeout_s is None else self._clock() + timeout_s
        pause = POLL_FIRST_S
        while not (job := self.job(name)).is_final:
            if deadline is not None and self._clock() + pause > deadline:
                raise Unavailable(f"job {name} is not over after {timeout_s:g} s: it is {job.state}", "wait longer")
            self._sleep(pause)
            pause = min(pause * 1.5, POLL_MAX_S)
        return job

    # Tasks and logs

    def task_attempts(self, name: str, role: str, index: int, job_attempt: int) -> Mapping[str, Any]:
        """Return a task with each of its attempts, newest first, as the server tells it."""
        answer: Mapping[str, Any] = self._get(
            f"{self.path(name)}/attempts/{job_attempt}/taskRoles/{quote(role)}/taskIndex/{index}/attempts"
        )
        return answer

    def logs(self, name: str, role: str, index: int, *, attempt: int, job_attempt: int) -> AttemptLogs:
        """Return the logs of one task attempt; raise NoTaskLogError when it never began."""
        answer = self._get(
            f"{self.path(name)}/attempts/{job_attempt}/taskRoles/{quote(role)}"
            f"/taskIndex/{index}/attempts/{attempt}/logs"
        )
        return AttemptLogs(self._wire, {place["name"]: place["uri"] for place in answer["locations"]})

    def follow(self, name: str, role: str, index: int, stream: str = "all") -> Iterator[LogPiece]:
        """Yield what the newest attempt of a task writes until that attempt is over."""
        job = self.job(name)
        task = job.task(role, index)
        if task is None or task.attempt is None or job.attempt is None:
            raise Refused("NoTaskLogError", f"task {role}-{index} of job {name} has not begun", "try again later")
        return self.logs(name, role, index, attempt=task.attempt, job_attempt=job.attempt).follow(stream)

    # Machines

    def nodes(self) -> tuple[NodeView, ...]:
        """Return every machine, by name."""
        return tuple(NodeView.read(document) for document in self._get("/nodes"))

    def path(self, name: str) -> str:
        """Return a job's path in the API; a bare name is a job of our own."""
        if not name or "/" in name or name in (".", ".."):
            raise Refused("InvalidParametersError", f"{name!r} is not a job's name", "name it `job` or `user~job`")
        full = name if "~" in name or not self.user else f"{self.user}~{name}"
        return f"/jobs/{quote(full, safe='~')}"
