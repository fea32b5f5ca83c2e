"""Jobs that a queue of the cluster admits: held until then, taken back, and withdrawn once they are over."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest
from structlog.testing import capture_logs

from openpai.lifecycle.rescaling import RoleScale
from openpai.ports.admission import Admission, AdmissionRequest, AdmissionState, TasksAsked
from openpai.protocol.errors import InvalidProtocol, Refused
from tests.unit.orchestrator.servers import Servers, as_answer, live

pytestmark = pytest.mark.slow


class StubQueue:
    """A queue that admits what the test says."""

    def __init__(self) -> None:
        self.asked: dict[str, AdmissionRequest] = {}
        self.asked_again: list[str] = []
        self.changed: list[str] = []
        self.states: dict[str, Admission] = {}
        self._news: dict[str, None] = {}
        self._has_news = asyncio.Event()

    def request_admission(self, asked: AdmissionRequest) -> None:
        self.asked[asked.job] = asked
        if self.states.get(asked.job, Admission(AdmissionState.WAITING)).state is AdmissionState.EVICTED:
            self.asked_again.append(asked.job)
            self.states[asked.job] = Admission(AdmissionState.WAITING, "no room left")
        self.states.setdefault(asked.job, Admission(AdmissionState.WAITING, "no room left"))

    def change_admission(self, asked: AdmissionRequest) -> None:
        self.asked[asked.job] = asked
        self.changed.append(asked.job)

    def withdraw_admission(self, job: str) -> None:
        self.asked.pop(job, None)
        self.states.pop(job, None)

    def admission(self, job: str) -> Admission:
        return self.states.get(job, Admission(AdmissionState.GONE))

    async def admission_news(self) -> Collection[str]:
        await self._has_news.wait()
        self._has_news.clear()
        news, self._news = self._news, {}
        return news

    def say(self, job: str, state: AdmissionState | None, message: str = "") -> None:
        """Change what is known of a job; None for a job of which nothing is known any more."""
        if state is None:
            self.states.pop(job, None)
        else:
            self.states[job] = Admission(state, message)
        self._news[job] = None
        self._has_news.set()


async def with_queue(servers: Servers) -> StubQueue:
    """Start the server once more, with a queue for the jobs of the virtual cluster default."""
    queue = StubQueue()
    servers.queue = queue
    await servers.restart()
    return queue


async def reasons(servers: Servers, name: str) -> list[str]:
    return [event.event.reason for event in await servers.events(name)]


async def config_of(servers: Servers, name: str) -> str:
    """Return the file of a job, as its owner reads it."""
    return await servers.queries.config((await servers.row(name)).id) or ""


def test_a_job_is_held_until_it_is_admitted_and_withdrawn_once_it_is_over() -> None:
    async def story(servers: Servers) -> None:
        queue = await with_queue(servers)
        id_ = (await servers.submit("train", command="sleep 10", instances=2)).job
        await servers.until(lambda: as_answer(id_ in queue.asked))
        (wait,) = await servers.why("train")
        assert (wait.code.value, wait.message) == (
            "WAITS_FOR_ADMISSION", "the queue team-a of Kueue has not admitted it: no room left",
        )  # fmt: skip
        assert queue.asked[id_] == AdmissionRequest(
            id_, "ann~train", "team-a", 10, (TasksAsked("worker", 2, 1, 64, 1),)
        )
        queue.say(id_, AdmissionState.ADMITTED)
        await servers.in_phase("train", "succeeded")
        assert (await reasons(servers, "train"))[:3] == ["Submitted", "Released", "Granted"]
        assert not queue.asked

    live(story)


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_running_job_that_loses_its_admission_leaves_and_runs_again_once_it_is_admitted(is_deleted: bool) -> None:
    async def story(servers: Servers) -> None:
        queue = await with_queue(servers)
        id_ = (await servers.submit("train", command="sleep 60")).job
        queue.say(id_, AdmissionState.ADMITTED)
        await servers.in_phase("train", "running")
        queue.say(id_, None if is_deleted else AdmissionState.EVICTED, "" if is_deleted else "others go first")
        await servers.in_phase("train", "held")
        assert not servers.where(id_)
        await servers.until(lambda: as_answer(queue.asked_again == ([] if is_deleted else [id_])))
        reason = "its Workload was deleted" if is_deleted else "others go first"
        assert any(reason in each.event.message for each in await servers.events("train"))
        queue.say(id_, AdmissionState.ADMITTED)
        await servers.in_phase("train", "succeeded")
        row = await servers.row("train")
        assert (row.attempt, row.retries_counted) == (1, 0)

    live(story)


@pytest.mark.parametrize("is_gang", [True, False])
def test_a_job_that_loses_its_admission_while_it_waits_for_room_is_held_again(is_gang: bool) -> None:
    async def story(servers: Servers) -> None:
        queue = await with_queue(servers)
        first = (await servers.submit("first", instances=16, command="sleep 100")).job
        queue.say(first, AdmissionState.ADMITTED)
        await servers.in_phase("first", "running")
        second = (await servers.submit("second", command="sleep 10", extras={"gangAllocation": is_gang})).job
        queue.say(second, AdmissionState.ADMITTED)
        await servers.in_phase("second", "queued")
        queue.say(second, AdmissionState.EVICTED, "others go first")
        await servers.in_phase("second", "held")
        assert not servers.leader.scheduler.queue("default")
        await servers.in_phase("first", "succeeded")
        assert (await servers.row("second")).phase == "held"
        assert await reasons(servers, "second") == ["Submitted", "Released", "AdmissionLost"]
        queue.say(second, AdmissionState.ADMITTED)
        await servers.in_phase("second", "succeeded")

    live(story)


def test_a_job_that_waits_for_its_next_try_gives_its_quota_back_at_once() -> None:
    async def story(servers: Servers) -> None:
        queue = await with_queue(servers)
        id_ = (await servers.submit("train", command="sleep 5; exit 137")).job
        queue.say(id_, AdmissionState.ADMITTED)

        async def waits_for_long() -> bool:
            row = await servers.row("train")
            return row.phase == "backing_off" and row.attempt >= 4

        await servers.until(waits_for_long)
        queue.say(id_, AdmissionState.EVICTED, "others go first")
        await servers.until(lambda: as_answer(queue.asked_again == [id_]), within_s=2)
        assert (await servers.row("train")).phase == "backing_off"

    live(story)


def test_a_retry_keeps_the_admission_and_another_leader_goes_on_with_it() -> None:
    async def story(servers: Servers) -> None:
        queue = await with_queue(servers)
        id_ = (await servers.submit("train", command="sleep 20; exit 1", jobRetryCount=1)).job
        queue.say(id_, AdmissionState.ADMITTED)
        await servers.in_phase("train", "running")
        await servers.restart()
        await servers.in_phase("train", "failed")
        assert (await servers.row("train")).attempt == 1
        assert not queue.asked_again
        assert not queue.states
        await servers.commands.start("ann", "train", "ann")
        await servers.until(lambda: as_answer(id_ in queue.asked))
        assert queue.asked[id_].queue == "team-a"

    live(story)


@pytest.mark.parametrize("phase", ["held", "running"])
def test_another_priority_reaches_the_queue_at_once_and_leaves_the_admission(phase: str) -> None:
    async def story(servers: Servers) -> None:
        queue = await with_queue(servers)
        id_ = (await servers.submit("train", command="sleep 60")).job
        if phase == "running":
            queue.say(id_, AdmissionState.ADMITTED)
        await servers.in_phase("train", phase)
        await servers.until(lambda: as_answer(id_ in queue.asked))
        await servers.commands.set_priority("ann", "train", "prod", "ann")
        await servers.until(lambda: as_answer(queue.asked[id_].priority == 100), within_s=2)
        assert (await servers.row("train")).phase == phase
        assert not queue.asked_again
        assert queue.changed == ([id_] if phase == "running" else [])

    live(story)


@pytest.mark.parametrize("state", [None, AdmissionState.WAITING])
def test_another_leader_finds_that_an_admission_was_lost_while_none_ran(state: AdmissionState | None) -> None:
    async def story(servers: Servers) -> None:
        queue = await with_queue(servers)
        id_ = (await servers.submit("train", command="sleep 60")).job
        queue.say(id_, AdmissionState.ADMITTED)
        await servers.in_phase("train", "running")
        await servers.restart()
        # It asks about all jobs that were admitted, also those of which its cluster says nothing.
        assert queue.changed == [id_]
        queue.say(id_, state)
        await servers.in_phase("train", "held")

    live(story)


def test_a_job_stays_as_it_was_admitted() -> None:
    async def story(servers: Servers) -> None:
        await with_queue(servers)
        await servers.submit("train")
        with pytest.raises(Refused, match="admits job ann~train as it was submitted"):
            await servers.commands.rescale("ann", "train", {"worker": RoleScale(2)}, "ann")
        with pytest.raises(InvalidProtocol, match="admitted by the Kueue queue 'team-a'"):
            await servers.submit("other", extras={"kueue": {"queue": "team-b"}})
        await servers.submit("same", extras={"kueue": {"queue": "team-a"}})
        assert "kueue" not in await config_of(servers, "train")
        assert "kueue" in await config_of(servers, "same")
        with pytest.raises(InvalidProtocol, match="at most 8 task roles"):
            await servers.submit("wide", roles={f"role{number}": {} for number in range(9)})

    live(story)


def test_a_job_names_no_queue_where_none_admits_it() -> None:
    async def story(servers: Servers) -> None:
        with pytest.raises(InvalidProtocol, match="admitted by the platform's own queue"):
            await servers.submit("train", extras={"kueue": {"queue": "team-a"}})

    live(story)


def test_a_queue_of_a_virtual_cluster_that_does_not_exist_is_a_problem_that_administrators_see() -> None:
    async def story(servers: Servers) -> None:
        servers.queues = {"default": "team-a", "visoin": "team-b"}
        missing = "--kueue-queues gives virtual cluster 'visoin' the queue team-b, and there is no such virtual cluster"
        with capture_logs() as logs:
            await with_queue(servers)
        assert (await servers.commands.cluster_config()).problems == (missing,)
        assert [entry["problem"] for entry in logs if entry["log_level"] == "warning"] == [missing]
        # It may be added while the server runs, and another one may be what was meant.
        added = await servers.commands.promise("vision", "1 nodes", "root")
        assert added.problems == (f"{missing}; did you mean 'vision'?",)
        assert (await servers.commands.preview_promise("visoin", "1 nodes")).problems == ()
        assert (await servers.commands.promise("visoin", "1 nodes", "root")).problems == ()
        removed = await servers.commands.preview_promise("visoin", None)
        assert removed.problems == added.problems
        assert (await servers.commands.promise("visoin", None, "root")).problems == added.problems

    live(story)


async def without_queue(servers: Servers, queue: StubQueue) -> None:
    """Start the server without the setting; it removes what was asked for."""
    servers.queue = None
    queue.asked.clear()
    queue.states.clear()
    await servers.restart()


async def with_queue_again(servers: Servers, queue: StubQueue) -> None:
    """Start the server with the setting again; nothing is known of the jobs that it asks for."""
    servers.queue = queue
    await servers.restart()
    for id_ in queue.asked:
        queue.say(id_, None)


@pytest.mark.parametrize("phase", ["running", "queued", "held", "backing_off"])
def test_a_job_is_admitted_again_once_a_setting_that_was_taken_away_is_given_back(phase: str) -> None:
    async def story(servers: Servers) -> None:
        queue = await with_queue(servers)
        if phase == "queued":
            other = (await servers.submit("other", instances=16, command="sleep 100")).job
            queue.say(other, AdmissionState.ADMITTED)
            await servers.in_phase("other", "running")
        command = "exit 137" if phase == "backing_off" else "sleep 200"
        id_ = (await servers.submit("train", command=command)).job
        await servers.until(lambda: as_answer(id_ in queue.asked))
        if phase != "held":
            queue.say(id_, AdmissionState.ADMITTED)
        await servers.in_phase("train", phase)
        await without_queue(servers, queue)
        # The platform's own queue admits it meanwhile.
        await servers.in_phase("train", "running" if phase == "held" else phase)
        await with_queue_again(servers, queue)
        assert id_ in queue.asked
        await servers.in_phase("train", "held")
        assert not servers.where(id_)
        queue.say(id_, AdmissionState.ADMITTED)
        await servers.in_phase("train", "backing_off" if phase == "backing_off" else "running")
        assert (await servers.row("train")).retries_counted == 0

    live(story)


def test_a_job_that_was_submitted_without_the_setting_is_not_asked_for_once_it_is_given() -> None:
    async def story(servers: Servers) -> None:
        before = (await servers.submit("before", command="sleep 200")).job
        await servers.in_phase("before", "running")
        queue = await with_queue(servers)
        await servers.submit("after")
        await servers.until(lambda: as_answer(len(queue.asked) == 1))
        assert before not in queue.asked
        await servers.in_phase("before", "succeeded")

    live(story)
