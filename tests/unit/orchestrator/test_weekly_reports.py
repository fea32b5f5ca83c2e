"""The weekly report: what it says, who gets it, and that they get it once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from openpai.access.accounts import Group, User
from openpai.access.budgets import Budget, Kind, Period
from openpai.orchestrator.alert_state import AlertParts
from openpai.orchestrator.weekly_reports import AFTER, last_monday, mail_reports, weekly_report
from openpai.ports.alerts import Channel
from openpai.ports.store import Sealed
from openpai.ports.usage import LentUse
from openpai.store.accounts import SqlAccountStore
from openpai.store.alerts import SqlAlertStore
from tests.clocks import HandClock
from tests.unit.orchestrator.servers import Servers, live

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


async def _waste(servers: Servers, at_ms: int, virtual_cluster: str, hours: float) -> None:
    await servers.usage.add_lent_use([LentUse(virtual_cluster, "ann", idle_gpu_ms=hours * HOUR_MS)], at_ms, None)


async def _join(
    accounts: SqlAccountStore, name: str, groups: tuple[str, ...], notifications: Mapping[str, Any]
) -> None:
    extension = {"notifications": notifications}
    user = User(name, "", 0, email=f"{name}@example.org", groups=tuple(map(Group, groups)), extension=extension)
    await accounts.add_user(user)


def test_it_is_about_the_last_whole_week_and_the_virtual_clusters_of_its_reader() -> None:
    async def story(servers: Servers) -> None:
        now_ms = servers.clock.now_ms()
        monday_ms = int(last_monday(now_ms).timestamp()) * 1000
        assert monday_ms <= now_ms < monday_ms + 7 * DAY_MS
        subject, text = await weekly_report(servers.usage, (), now_ms)
        assert subject.startswith("GPU hours of the platform in the week of ")
        assert "Nothing was used." in text
        await _waste(servers, monday_ms - DAY_MS, "vision", 2.5)
        await _waste(servers, monday_ms - 7 * DAY_MS, "vision", 1.0)
        await _waste(servers, monday_ms, "vision", 100.0)
        await _waste(servers, monday_ms - 8 * DAY_MS, "vision", 100.0)
        await _waste(servers, monday_ms - DAY_MS, "speech", 7.0)
        for name in ("vision", "speech"):
            await servers.usage.set_budget(Budget(Kind.VC, name, Period.TOTAL, 10.0))
        subject, text = await weekly_report(servers.usage, ["vision"], now_ms)
        assert subject.startswith("GPU hours of vision in the week of ")
        assert "wasted 3.5: idle 3.5, lost by failures of the platform 0.0, by preemption 0.0" in text
        assert "  ann: 0.0, wasted 3.5" in text
        assert "virtual cluster vision: 0 of its 10 GPU hours are used" in text
        assert "speech" not in text
        assert "Virtual cluster speech" in (await weekly_report(servers.usage, (), now_ms))[1]

    live(story)


def test_managers_who_asked_get_it_once_a_week() -> None:
    async def story(servers: Servers) -> None:
        accounts, alerts = SqlAccountStore(servers.database), SqlAlertStore(servers.database)
        for group in (Group("seers", managed=("vision",)), Group("bosses", is_admin=True), Group("lab")):
            await accounts.add_group(group)
        hook = {"on": ["weekly"], "url": "https://hooks.example.org/x", "shape": "slack"}
        await _join(accounts, "max", ("seers",), {"on": ["weekly"]})
        await _join(accounts, "eve", ("lab",), {"on": ["weekly"]})  # manages nothing
        await _join(accounts, "bob", ("seers",), {"on": ["end"]})
        await _join(accounts, "root", ("bosses",), hook)
        await alerts.set_channel(Channel("post", "mail", {}, Sealed(b"")))
        unused: Any = None
        leader = servers.leader
        leader.alert_parts = AlertParts(alerts, unused, accounts, servers.queries, servers.usage, cast("Any", unused))
        monday_ms = int(last_monday(servers.clock.now_ms()).timestamp()) * 1000 + 7 * DAY_MS

        async def sent(at_ms: int) -> list[tuple[str, tuple[str, ...], str]]:
            await mail_reports(replace(leader, clock=HandClock(at_ms)))
            found = await alerts.notices(("waiting",), 100)
            return sorted((each.channel, each.message.to, each.message.url) for each in found)

        after_ms = int(AFTER.total_seconds() * 1000)
        assert await sent(monday_ms + after_ms - 1) == []
        first = [("@slack", (), "https://hooks.example.org/x"), ("post", ("max@example.org",), "")]
        assert await sent(monday_ms + after_ms) == first
        for notice in await alerts.notices(("waiting",), 100):
            assert notice.message.text.endswith("how to end it: pai alert subscribe --help")
        assert await sent(monday_ms + 3 * DAY_MS) == first
        assert len(await sent(monday_ms + 8 * DAY_MS)) == 4

    live(story)
