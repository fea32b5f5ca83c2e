"""Jobs: submit, list, show, wait, and find their logs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx

from openpai.client import model
from openpai.client.calls.naming import Naming, segment
from openpai.client.calls_core import (
    Call,
    as_it_came,
    as_text,
    asks,
    awaits,
    iterates,
    known,
    listed,
    query_of,
    whole,
)
from openpai.protocol.errors import Refused, Unavailable

if TYPE_CHECKING:
    from openpai.client.logs import LogPlaces

POLL_FIRST_S: Final = 0.1
FAILURES_IN_A_ROW: Final = 10
POLL_MAX_S: Final = 2.0
LOOK_S: Final = 2.0
"""The least time for an answer of the server, even at the end of a wait."""
PAGE: Final = 200


class JobFilters(TypedDict, total=False):
    """Filters and order of jobs, with the API's names."""

    username: str | Sequence[str]
    vc: str | Sequence[str]
    state: str | Sequence[str]
    keyword: str
    tagsContain: str | Sequence[str]
    tagsNotContain: str | Sequence[str]
    sweep: str | Sequence[str]
    jobPriority: str | Sequence[str]
    submittedFrom: int | None
    submittedTo: int | None
    archived: bool
    node: str
    foldSweeps: bool
    order: str
    after: str


def task_path(job: str, role: str, index: int, job_attempt: int) -> str:
    """Return a task's path below its job's."""
    return f"{job}/attempts/{job_attempt}/taskRoles/{segment(role, 'a task role')}/taskIndex/{index}/attempts"


class Jobs(Naming):
    """Jobs. `name` is `user~job`, or `job` for one's own."""

    clock: Callable[[], float]

    @asks
    def submit(self, text: bytes | str, *, key: str | None = None, clone_of: str = "") -> Call[model.Submitted]:
        """Submit a job file; the job is stored durably when this returns.

        A request that is sent several times because answers were lost makes one job: `key` names the request, and is
        generated unless it is given, so that a program can repeat it later. With `clone_of`, one of the user's jobs,
        the file may be what `config` returned: each mask in it stands for the secret of that job.
        """
        headers = {"Content-Type": "text/yaml", "Idempotency-Key": key or uuid4().hex}
        content = text.encode() if isinstance(text, str) else text
        return Call(
            "POST", "/jobs", whole(model.Submitted.read), query_of(cloneOf=clone_of or None),
            content=content, headers=headers, is_repeatable=True,
        )  # fmt: skip

    @asks
    def check_job(self, text: bytes | str) -> Call[model.CheckedJob]:
        """Check a job file as a submission would, and say why it would wait; submits nothing."""
        content = text.encode() if isinstance(text, str) else text
        headers = {"Content-Type": "text/yaml"}
        return Call(
            "POST", "/jobs/check", whole(model.CheckedJob.read), content=content, headers=headers, is_repeatable=True
        )

    @asks
    def jobs(self, /, *, limit: int = 20, offset: int = 0, **where: Unpack[JobFilters]) -> Call[model.JobPage]:
        """Return one page of jobs, newest first. `where` takes the filters of `JobFilters`; others are refused."""
        return self._page(where, limit, offset)

    @iterates
    async def all_jobs(
        self, /, *, page: int = PAGE, **where: Unpack[JobFilters]
    ) -> AsyncGenerator[model.JobSummary, None]:
        """Yield every job that matches, newest first, reading `page` of them at a time.

        In another `order`, a job whose place changes meanwhile may appear twice or not at all.
        """
        seen: set[str] = set()
        call: Call[model.JobPage] | None = self._page(where, page, 0)
        while call is not None:
            answer = await self.wire.ask(call)
            for job in answer.jobs:
                # A server that pages by offset lists a job twice if others are submitted meanwhile.
                if job.full_name not in seen:
                    yield job
            if answer.next:
                call = self._page({**where, "after": answer.next}, page, 0)
                continue
            seen.update(job.full_name for job in answer.jobs)
            offset = answer.offset + len(answer.jobs)
            is_last = "after" in call.params or not answer.jobs or offset >= answer.total
            call = None if is_last else self._page(where, page, offset)

    def _page(self, where: Mapping[str, object], limit: int, offset: int) -> Call[model.JobPage]:
        known(where, JobFilters, "jobs")
        params = {"limit": str(limit), "offset": str(offset), "withTotalCount": "true", **query_of(**where)}

        def read(response: httpx.Response) -> model.JobPage:
            place = response.links.get("next", {}).get("url", "")
            after = parse_qs(urlsplit(place).query).get("after", [""])[0]
            return model.JobPage.read(response.json(), offset=offset, next=after)

        return Call("GET", "/jobs", read, params)

    @asks
    def job(self, name: str, attempt: int | None = None) -> Call[model.JobDetail]:
        """Return a job with its tasks: in its newest attempt, or in attempt number `attempt`."""
        return self._asked_of(name, attempt)

    @asks
    def config(self, name: str) -> Call[str]:
        """Return the job's file, with its secrets masked."""
        return Call("GET", f"{self.path(name)}/config", as_text)

    @asks
    def task_use(self, name: str) -> Call[tuple[model.TaskUse, ...]]:
        """Return what the running tasks of a job use, as it was measured last."""
        return Call("GET", f"{self.path(name)}/usage", listed(model.TaskUse.read, "tasks"))

    @asks
    def kept_work(self, name: str) -> Call[tuple[model.WorkKept, ...]]:
        """Return which files are kept that the job's tasks left in their working directories."""
        return Call("GET", f"{self.path(name)}/work", listed(model.WorkKept.read, "kept"))

    @awaits
    async def wait(self, name: str, timeout_s: float | None = None) -> model.JobDetail:
        """Return the job after it has finished; raise Unavailable if that takes longer than `timeout_s`.

        After its first answer, the server may be restarted meanwhile. Waiting for a server that does not answer takes
        at most `timeout_s`, or two seconds if that is less.
        """
        begun, pause_s, failures, state = self.clock(), POLL_FIRST_S, 0, ""
        while True:
            left_s = None if timeout_s is None else max(LOOK_S, begun + timeout_s - self.clock())
            try:
                job = await self.wire.ask(replace(self._asked_of(name), within_s=left_s))
                if job.is_final:
                    return job
                failures, state = 0, job.state
            except Unavailable:
                failures += 1
                if not state or failures >= FAILURES_IN_A_ROW:
                    raise
            if timeout_s is not None and self.clock() - begun + pause_s > timeout_s:
                message = f"it was {state}, and the server does not answer" if failures else f"it is {state}"
                raise Unavailable(f"job {name} is not over after {timeout_s:g} s: {message}", "wait longer")
            await self.wire.sleep(pause_s)
            pause_s = min(pause_s * 1.5, POLL_MAX_S)

    @asks
    def task_attempts(self, name: str, role: str, index: int, job_attempt: int) -> Call[Mapping[str, Any]]:
        """Return a task with each of its attempts, newest first."""
        return Call("GET", task_path(self.path(name), role, index, job_attempt), as_it_came)

    def _asked_of(self, name: str, attempt: int | None = None) -> Call[model.JobDetail]:
        path = self.path(name) if attempt is None else f"{self.path(name)}/attempts/{attempt}"
        return Call("GET", path, whole(model.JobDetail.read))

    async def log_places(
        self, name: str, role: str, index: int, attempt: int | None, job_attempt: int | None
    ) -> LogPlaces:
        """Return the addresses of the logs of a task attempt: of the newest, unless one is named."""
        from openpai.client.logs import LogPlaces

        if attempt is None or job_attempt is None:
            job = await self.wire.ask(self._asked_of(name, job_attempt))
            attempt, job_attempt = newest(job, role, index, attempt)
        path = f"{task_path(self.path(name), role, index, job_attempt)}/{attempt}/logs"
        return await self.wire.ask(Call("GET", path, whole(LogPlaces.read)))

    @iterates
    async def follow(
        self, name: str, role: str, index: int, stream: str = "all"
    ) -> AsyncGenerator[model.LogPiece, None]:
        """Yield what the newest attempt of a task writes until that attempt is over."""
        places = await self.log_places(name, role, index, None, None)
        async with aclosing(self.wire.follow(places.uri(stream))) as pieces:
            async for piece in pieces:
                yield piece


def newest(job: model.JobDetail, role: str, index: int, attempt: int | None) -> tuple[int, int]:
    """Return the chosen attempt of a task, and that of its job; raise NoTaskLogError if there is none."""
    task = job.task(role, index)
    attempt = attempt if task is None or attempt is not None else task.attempt
    if task is None and job.tasks:
        message = f"job {job.full_name} has no task {f'{role}-{index}'!r}"
        raise Refused("NoTaskLogError", message, "`pai job show` lists its tasks")
    if attempt is None or job.attempt is None:
        raise Refused("NoTaskLogError", f"task {role}-{index} of job {job.full_name} has not begun", "try again later")
    return attempt, job.attempt
