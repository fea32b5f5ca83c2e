"""A budget that is used up warns once, refuses, gives notice and then stops what it says, and nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from openpai.access.accounts import Group, User
from openpai.access.budgets import Budget, Kind, Period, Stops
from openpai.orchestrator.budgets import recipients
from openpai.ports.usage import AuditFilter
from openpai.protocol.errors import Refused
from tests.unit.orchestrator.servers import Servers, live

OPPO = {"extras": {"hivedScheduler": {"jobPriorityClass": "oppo"}}}
VC = Budget(Kind.VC, "default", Period.TOTAL, 1.0, stops=Stops.OPPORTUNISTIC, notice_minutes=10, contact="room 5")


async def reasons(servers: Servers, name: str) -> list[str]:
    return [each.event.message for each in await servers.events(name) if each.event.reason == "BudgetUsedUp"]


async def use_up(servers: Servers) -> None:
    """Let two jobs use more than a GPU hour."""
    await servers.submit("prod", gpus=4)
    await servers.submit("oppo", gpus=4, **OPPO)
    for name in ("prod", "oppo"):
        await servers.in_phase(name, "running")
    assert await reasons(servers, "oppo") == []
    await asyncio.sleep(660)


@pytest.mark.slow
def test_opportunistic_jobs_get_notice_once_and_are_stopped_afterwards() -> None:
    async def story(servers: Servers) -> None:
        await servers.usage.set_budget(VC)
        await use_up(servers)
        (notice,) = await reasons(servers, "oppo")
        assert "virtual cluster default is used up" in notice
        assert "stopped in 10 minutes" in notice
        with pytest.raises(Refused) as refused:
            await servers.submit("more", gpus=1)
        assert "1 GPU hours are used" in refused.value.message
        assert refused.value.advice == "it is never renewed; for more, ask room 5"
        await servers.submit("free", gpus=0)
        # Another leader keeps the time.
        await servers.restart()
        await servers.in_phase("oppo", "stopped", within_s=700)
        assert await reasons(servers, "prod") == []
        assert (await servers.row("prod")).phase == "running"
        (row,) = await servers.usage.audit(AuditFilter(actions=("job.stop",)))
        assert (row.entry.actor, row.entry.target, row.entry.owner, row.entry.via) == (
            "platform", "ann~oppo", "ann", "budget",
        )  # fmt: skip
        with pytest.raises(Refused):
            await servers.commands.start("ann", "oppo", "ann")

    live(story)


@pytest.mark.slow
def test_a_budget_that_is_raised_takes_the_notice_back() -> None:
    async def story(servers: Servers) -> None:
        await servers.usage.set_budget(replace(VC, stops=Stops.ALL))
        await use_up(servers)
        assert len(await reasons(servers, "prod")) == 1
        await servers.usage.set_budget(replace(VC, stops=Stops.ALL, gpu_hours=100.0))
        await asyncio.sleep(1200)
        assert [(await servers.row(name)).phase for name in ("prod", "oppo")] == ["running", "running"]
        await servers.submit("more", gpus=1)

    live(story)


@pytest.mark.slow
def test_without_a_stop_accepted_jobs_go_on() -> None:
    async def story(servers: Servers) -> None:
        await servers.usage.set_budget(replace(VC, stops=Stops.NONE, notice_minutes=0))
        await use_up(servers)
        assert [(await servers.row(name)).phase for name in ("prod", "oppo")] == ["running", "running"]
        assert await reasons(servers, "oppo") == []

    live(story)


@pytest.mark.slow
def test_a_notice_of_a_minute_is_one_minute() -> None:
    async def story(servers: Servers) -> None:
        await servers.usage.set_budget(replace(VC, gpu_hours=0.01, notice_minutes=1))
        await servers.submit("oppo", gpus=4, **OPPO)
        await servers.in_phase("oppo", "stopped", within_s=300)
        assert "the job is stopped in 1 minute: save its work" in (await reasons(servers, "oppo"))[0]

    live(story)


@pytest.mark.parametrize("jump_ms", [-7_200_000, 7_200_000])
def test_a_clock_that_jumps_uses_up_no_budget(jump_ms: int) -> None:
    async def story(servers: Servers) -> None:
        await servers.usage.set_budget(replace(VC, notice_minutes=1))
        await servers.submit("oppo", gpus=1, **OPPO)
        await servers.in_phase("oppo", "running")
        servers.clock.set_ms += jump_ms
        await asyncio.sleep(600)
        assert await reasons(servers, "oppo") == []
        assert (await servers.row("oppo")).phase == "running"

    live(story)


def _user(name: str, *groups: Group, **more: Any) -> User:
    return User(name, "", 0, email=f"{name}@example.org", groups=groups, **more)


def test_warnings_go_to_the_user_to_managers_or_else_to_administrators() -> None:
    admin = _user("root", Group("admins", is_admin=True))
    users = {each.name: each for each in (_user("ann"), _user("max", Group("seers", managed=("vision",))), admin)}
    assert recipients(replace(VC, kind=Kind.USER, name="ann"), users) == ("ann@example.org",)
    assert recipients(replace(VC, name="vision"), users) == ("max@example.org",)
    assert recipients(replace(VC, name="speech"), users) == ("root@example.org",)
    assert recipients(replace(VC, kind=Kind.GROUP, name="seers"), users) == ("root@example.org",)
