"""What the leader reads to find out which users asked for messages about their jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from openpai.access.accounts import DEFAULT_GROUP, Group, User
from openpai.protocol.job import JobSpec

from .servers import Servers
from .test_alerts import Alerting, story


def test_files_of_jobs_are_not_read_for_users_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        read: list[str] = []
        spec = servers.queries.spec

        async def counting(job: str) -> JobSpec | None:
            read.append(job)
            return await spec(job)

        monkeypatch.setattr(servers.queries, "spec", counting)
        await alerting.users.add_user(User("eve", "x", 0, "", (Group(DEFAULT_GROUP),)))
        await asyncio.sleep(10)
        for user in ("eve", "ann"):
            await servers.submit("short", user, command="sleep 5")
            await servers.in_phase("short", "succeeded", user)
            await asyncio.sleep(20)
        assert set(read) == {(await servers.row("short", "ann")).id}

    story(tell)


def test_users_are_not_read_while_nothing_happens_and_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def idle(servers: Servers, alerting: Alerting) -> None:
        await asyncio.sleep(20)
        read: list[str] = []
        users = alerting.users.users

        async def counting() -> Sequence[User]:
            read.append("users")
            return await users()

        monkeypatch.setattr(alerting.users, "users", counting)
        await asyncio.sleep(60)
        assert not read
        await servers.submit("short", "ann", command="sleep 5")
        await servers.in_phase("short", "succeeded", "ann")
        await asyncio.sleep(20)
        assert read

    story(idle)
