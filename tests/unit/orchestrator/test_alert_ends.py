"""Whoever heard of an alert hears of its end, whatever becomes of its rule; and a rule says whom it cannot reach."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from openpai.alerts.states import State
from openpai.ports.alerts import Channel, Message
from openpai.ports.revisions import Edit

from .servers import Servers
from .test_alerts import LONG, Alerting, story

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("is_removed", "crashes"), [(True, False), (False, False), (True, True)])
def test_the_end_of_a_rule_that_fires_is_the_end_of_its_alerts(is_removed: bool, crashes: bool) -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        await alerting.rule()
        await servers.submit("train")
        await servers.in_phase("train", "running")
        await sent(alerting, 1)
        end = None if is_removed else LONG.format(actions="[]", more="enabled: false")
        async with crash(servers, alerting) if crashes else contextlib.nullcontext():
            await servers.commands.change_alert_rule("Long", Edit(end), "root")
        firing, resolved = await sent(alerting, 2)
        assert (firing[1].subject[:8], resolved[1].subject[:10]) == ("[firing]", "[resolved]")
        await asyncio.sleep(300)
        assert len(alerting.sender.sent) == 2
        assert {alert.state for alert in await alerting.store.alerts()} == {State.RESOLVED}

    story(tell)


def test_a_rule_that_notifies_a_channel_that_does_not_exist_says_so_before_it_fires() -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        never = "alert: Never\nexpr: pai_job_running_seconds > 99999\nnotify: [chat, admins]\n"
        await alerting.rule(text=never + "escalate: [{after: 1h, notify: [pager]}]\n")
        problem = "it notifies channel 'pager', which does not exist"
        async with asyncio.timeout(300):
            while await problem_of(servers, "Never") != problem:  # noqa: ASYNC110  a state of the rule
                await asyncio.sleep(1)
        await alerting.store.set_channel(Channel("pager", "mail", {}))
        async with asyncio.timeout(300):
            while "sends mail and has no `to`" not in await problem_of(servers, "Never"):  # noqa: ASYNC110  likewise
                await asyncio.sleep(1)
        await alerting.store.set_channel(Channel("pager", "webhook", {}))
        async with asyncio.timeout(300):
            while await problem_of(servers, "Never"):  # noqa: ASYNC110  a state of the rule
                await asyncio.sleep(1)

    story(tell)


def test_a_rule_says_that_its_alert_reaches_no_administrator() -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        await alerting.rule(text="alert: Long\nexpr: pai_job_running_seconds > 60\nnotify: [admins]\n")
        await alerting.store.remove_channel("mail")
        await servers.submit("train")
        problem = "it fires, and no administrator is notified: there is no channel of kind mail"
        async with asyncio.timeout(300):
            while await problem_of(servers, "Long") != problem:  # noqa: ASYNC110  a state of the rule
                await asyncio.sleep(1)
        assert alerting.sender.sent == []
        await alerting.store.set_channel(Channel("mail", "mail", {"host": "mail", "from": "pai@example.org"}))
        await servers.submit("other")
        await servers.in_phase("other", "running")
        # Virtual time: what joins a group that fires is notified five minutes later.
        await asyncio.sleep(120)
        [(_, message)] = await sent(alerting, 1)
        assert message.to == ("root@example.org",)

    story(tell)


async def problem_of(servers: Servers, name: str) -> str:
    return next(view.problem for view in await servers.commands.alert_rules() if view.name == name)


async def sent(alerting: Alerting, count: int) -> list[tuple[str, Message]]:
    """Wait for so many messages and return them."""
    async with asyncio.timeout(300):
        while len(alerting.sender.sent) < count:  # noqa: ASYNC110  the sender of a test has no event
            await asyncio.sleep(1)
    return alerting.sender.sent


@contextlib.asynccontextmanager
async def crash(servers: Servers, alerting: Alerting) -> AsyncIterator[None]:
    """Have no pass see what happens inside, before the server starts again."""
    servers.leader.alert_parts = None
    yield
    await servers.restart()
    alerting.connect()


def test_an_alert_without_a_summary_is_described_by_its_labels() -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        rule = "alert: Bare\nexpr: pai_job_running_seconds > 0\nactions: [stop]\nnotify: [chat]\n"
        await alerting.rule(text=rule)
        await servers.submit("train")
        await servers.in_phase("train", "stopped")
        stop = next(each for each in await servers.events("train") if each.event.reason == "StopRequested")
        assert stop.event.message.endswith("alert Bare")
        async with asyncio.timeout(300):
            while not alerting.sender.sent:  # noqa: ASYNC110  the pass that sends
                await asyncio.sleep(1)
        message = alerting.sender.sent[0][1]
        assert message.subject == "[firing] Bare (warn): job_name=ann~train, username=ann, vc_name=default"

    story(tell)
