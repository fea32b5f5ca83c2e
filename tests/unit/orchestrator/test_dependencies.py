"""Jobs wait for others to end, run once they did, and end when they wait in vain, whatever happens to the server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from openpai.access.model import Principal, Role
from openpai.orchestrator.submitting import submitter_of
from openpai.protocol.errors import InvalidProtocol
from tests.unit.orchestrator.servers import Servers, live

pytestmark = pytest.mark.slow


def after(*entries: Any) -> dict[str, Any]:
    return {"after": list(entries)}


async def message_of(servers: Servers, name: str) -> str:
    outcome = (await servers.row(name)).outcome
    assert outcome is not None
    return outcome.message


@pytest.mark.parametrize("restarts", [False, True])
def test_a_job_runs_once_the_jobs_that_it_waits_for_have_ended_as_wanted(restarts: bool) -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("prepare", command="sleep 60")
        await servers.submit("doubtful", command="sleep 90; exit 1")
        await servers.submit(
            "train",
            command="sleep 10",
            extras=after("prepare", {"job": "ann~doubtful", "until": "ended"}),
        )
        await servers.submit("report", command="sleep 10", extras=after({"job": "train"}))
        await servers.in_phase("prepare", "running")
        (wait, other) = await servers.why("train")
        assert (wait.code.value, wait.message) == ("WAITS_FOR_JOB", "waits for job ann~prepare to succeed")
        assert other.message == "waits for job ann~doubtful to end"
        if restarts:
            await servers.restart()
        await servers.in_phase("prepare", "succeeded")
        assert (await servers.row("train")).phase == "held"
        if restarts:
            await servers.restart()
        await servers.in_phase("train", "succeeded")
        await servers.in_phase("report", "succeeded")
        doubtful, train, report = [await servers.row(name) for name in ("doubtful", "train", "report")]
        assert doubtful.phase == "failed"
        assert doubtful.ended_at_ms is not None
        assert (
            doubtful.ended_at_ms
            <= (train.started_at_ms or 0)
            <= (train.ended_at_ms or 0)
            <= (report.started_at_ms or 0)
        )
        assert doubtful.ended_at_ms <= (train.started_at_ms or 0)
        assert (train.ended_at_ms or 0) <= (report.started_at_ms or 0)
        reasons = [event.event.reason for event in await servers.events("train")]
        assert reasons[:3] == ["Submitted", "Released", "Granted"]
        assert not servers.leader.active.held_to_check

    live(story)


def test_tasks_that_start_one_by_one_run_after_the_job_that_theirs_waited_for() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("prepare", command="sleep 10")
        await servers.submit("train", command="sleep 10", extras={**after("prepare"), "gangAllocation": False})
        await servers.in_phase("train", "succeeded")

    live(story)


def test_a_job_that_waits_in_vain_ends_with_the_reason_and_may_be_started_again() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("prepare", command="sleep 60; exit 1")
        await servers.submit("train", command="sleep 10", extras=after("prepare"))
        await servers.submit("report", command="sleep 10", extras=after("train"))
        await servers.submit("mail", command="sleep 10", extras=after({"job": "report", "until": "ended"}))
        await servers.submit("mend", command="sleep 10", extras=after({"job": "prepare", "until": "failed"}))
        await servers.in_phase("mail", "succeeded")
        await servers.in_phase("mend", "succeeded")
        assert (await servers.row("train")).phase == (await servers.row("report")).phase == "stopped"
        assert await message_of(servers, "train") == "job ann~prepare failed, and this job waits for it to succeed"
        assert await message_of(servers, "report") == "job ann~train was stopped, and this job waits for it to succeed"
        outcome = (await servers.row("train")).outcome
        assert outcome is not None
        assert outcome.diagnosis is not None
        assert (outcome.code, outcome.diagnosis.phrase) == (-240, "DependencyNeverMet")
        # As long as the other one has not run again, a start ends for the same reason.
        await servers.commands.start("ann", "train", "ann")
        await servers.in_phase("train", "stopped")
        await servers.commands.start("ann", "prepare", "ann")
        await servers.in_phase("prepare", "running")
        await servers.commands.start("ann", "train", "ann")
        assert (await servers.row("train")).phase == "held"
        await servers.commands.stop("ann", "train", "ann")
        assert (await servers.row("train")).phase == "stopped"

    live(story)


def test_a_held_job_needs_no_room_and_its_place_in_the_queue_begins_with_its_release() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("first", gpus=4, instances=4, command="sleep 100")
        await servers.submit("held", gpus=4, instances=4, command="sleep 10", extras=after("first"))
        await servers.submit("younger", gpus=4, instances=4, command="sleep 100")
        await servers.in_phase("held", "succeeded")
        held, younger = await servers.row("held"), await servers.row("younger")
        assert (younger.started_at_ms or 0) < (held.started_at_ms or 0)

    live(story)


class Forgetful(dict[str, dict[str, None]]):
    """Forgets which jobs wait for which."""

    def setdefault(self, key: str, default: Any = None) -> Any:
        return {}


def test_a_deleted_job_has_ended_and_never_succeeds() -> None:
    async def story(servers: Servers) -> None:
        # It ends between two audits, which look at all held jobs.
        await servers.submit("gone", command="sleep 45")
        for name, until in (("wants-success", "succeeded"), ("wants-end", "ended")):
            await servers.submit(name, command="sleep 1", extras=after({"job": "gone", "until": until}))
        gone = await servers.row("gone")
        # As if its row had gone before the leader looked.
        servers.leader.active.dependents = Forgetful()
        await servers.in_phase("gone", "succeeded")
        assert (await servers.row("wants-end")).phase == "held"
        assert await servers.queries.delete(gone.id)
        await servers.in_phase("wants-end", "succeeded")
        message = "job ann~gone was deleted, and this job waits for it to succeed"
        assert await message_of(servers, "wants-success") == message

    live(story)


@pytest.mark.parametrize(
    ("entry", "by", "message"),
    [
        ("itself", "ann", "a job cannot wait for itself"),
        ("ann~itself", "ann", "a job cannot wait for itself"),
        ("unknown", "ann", "there is no job ann~unknown that you may see"),
        ("ann~works", "eve", "there is no job ann~works that you may see"),
        ("broken", "ann", "job ann~broken failed, and this job waits for it to succeed"),
    ],
)
def test_what_cannot_be_waited_for_is_refused_with_its_place(entry: str, by: str, message: str) -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("works", extras={"private": True})
        await servers.submit("broken", command="sleep 1; exit 1")
        await servers.in_phase("broken", "failed")
        submitter = submitter_of(Principal(by, Role.USER, frozenset({"default"})))
        with pytest.raises(InvalidProtocol) as refused:
            await servers.submit("itself", submitter, extras=after("works" if by == "ann" else entry, entry))
        fault = refused.value.faults[-1]
        assert (fault.path, fault.message) == ("extras.after.1", message)
        assert fault.allowed

    live(story)


def test_a_manager_may_wait_for_the_jobs_of_others_and_the_same_submission_again_is_the_same_job() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("works", command="sleep 60")
        admin = submitter_of(Principal("root", Role.ADMIN, frozenset()))
        keyed = replace(admin, idempotency_key="k")
        first = await servers.submit("mine", keyed, command="sleep 1", extras=after("ann~works"))
        again = await servers.submit("mine", keyed, command="sleep 1", extras=after("ann~works"))
        assert first == again
        await servers.in_phase("mine", "succeeded", user="root")

    live(story)
