"""Jobs that are restarted, and jobs that are killed without a grace period."""

from __future__ import annotations

import asyncio

import pytest

from openpai.protocol.errors import Refused
from tests.unit.orchestrator.servers import Servers, live


def test_a_running_job_runs_again_from_its_beginning() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("a", command="trap 'exit 9' TERM; sleep 100")
        await servers.in_phase("a", "running")
        await servers.commands.restart("ann", "a", "root", "new data")
        await servers.in_phase("a", "ending")
        await servers.in_phase("a", "running")
        assert (await servers.row("a")).attempt == 1
        message = [row.event.message for row in await servers.events("a") if row.event.reason == "RestartRequested"]
        assert message == ["root restarted the job: new data"]
        await servers.in_phase("a", "succeeded")
        await servers.commands.restart("ann", "a", "ann")
        await servers.in_phase("a", "running")
        assert (await servers.row("a")).attempt == 2
        events = [row.event for row in await servers.events("a")]
        restarts = [(event.job_attempt, event.message) for event in events if event.reason == "Restarted"]
        assert restarts == [(1, "root restarted the job: new data"), (2, "ann restarted the job")]
        # A restart by a person is neither a retry nor a stop.
        assert not {"Retried", "StopRequested"} & {event.reason for event in events}
        assert "attempt 1: root restarted the job: new data" in {event.message for event in events}

    live(story)


def test_a_server_that_does_not_lead_records_the_user_who_restarted_a_job() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("a", command="trap 'exit 9' TERM; sleep 100000")
        await servers.in_phase("a", "running")
        other = await servers.start("b")
        assert other.commands.leader is None
        await other.commands.restart("ann", "a", "root", "new data")
        await servers.in_phase("a", "ending")
        await servers.in_phase("a", "running")
        messages = [row.event.message for row in await servers.events("a") if row.event.reason == "RestartRequested"]
        assert messages == ["root restarted the job: new data"]

    live(story)


def test_a_job_that_waits_is_not_restarted() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("all", gpus=4, instances=4)
        await servers.in_phase("all", "running")
        await servers.submit("waits")
        with pytest.raises(Refused, match="waits to run already"):
            await servers.commands.restart("ann", "waits", "ann")
        assert (await servers.row("waits")).attempt == 0

    live(story)


def test_a_job_that_runs_is_not_started() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("a", command="trap 'sleep 9' TERM; sleep 1000")
        await servers.in_phase("a", "running")
        with pytest.raises(Refused, match="runs already"):
            await servers.commands.start("ann", "a", "ann")
        await servers.commands.stop("ann", "a", "root", "the data is wrong")
        await servers.in_phase("a", "ending")
        # A start takes back a stop that is under way.
        await servers.commands.start("ann", "a", "ann", "it was right")
        await servers.in_phase("a", "running")
        restarts = [row.event.message for row in await servers.events("a") if row.event.reason == "Restarted"]
        assert restarts == ["ann restarted the job: it was right"]
        assert (await servers.row("a")).attempt == 1
        await servers.commands.stop("ann", "a", "root", "the data is wrong")
        await servers.in_phase("a", "stopped")
        message = {row.event.message for row in await servers.events("a")}
        assert "the job was stopped: root stopped the job: the data is wrong" in message

    live(story)


def test_a_killed_job_gets_no_grace_not_even_what_is_left_of_it() -> None:
    async def story(servers: Servers) -> None:
        for name in ("deaf", "later"):
            await servers.submit(name, command="trap '' TERM; sleep 1000")
            await servers.in_phase(name, "running")
        await servers.commands.kill("ann", "deaf", "ann")
        assert await servers.in_phase("deaf", "stopped") < 2
        await servers.commands.stop("ann", "later", "ann")
        await asyncio.sleep(5)
        assert (await servers.row("later")).phase == "ending"
        await servers.commands.kill("ann", "later", "root")
        assert await servers.in_phase("later", "stopped") < 2
        await servers.commands.kill("ann", "later", "root")
        assert "KillRequested" in {row.event.reason for row in await servers.events("deaf")}

    live(story)
