"""What keeps an idle platform cheap: statements made once, as making one takes longer, and news of launches."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from openpai.ports.backend import Action

from .servers import Servers, live
from .test_alerts import Alerting, story


def made(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count from now on the statements that are made, by the function of ours that makes them."""
    found: Counter[str] = Counter()
    make = sa.Select.__init__

    def counting(statement: Any, *arguments: Any, **options: Any) -> None:
        ours = [frame.name for frame in traceback.extract_stack() if "/openpai/" in frame.filename]
        found[ours[-1]] += 1
        make(statement, *arguments, **options)

    monkeypatch.setattr(sa.Select, "__init__", counting)
    return found


def test_a_platform_with_nothing_to_do_makes_no_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    async def idle(servers: Servers, alerting: Alerting) -> None:
        # What is read only after a start is over, and the removal of what is old comes once an hour.
        await asyncio.sleep(120)
        found = made(monkeypatch)
        await asyncio.sleep(120)
        assert not found

    story(idle)


def test_a_submission_makes_no_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    async def submit(servers: Servers, alerting: Alerting) -> None:
        await servers.submit("first")
        found = made(monkeypatch)
        await servers.submit("second")
        assert not found

    story(submit)


def test_a_launch_is_announced_before_the_backend_gets_it_and_nothing_else_is() -> None:
    async def story(servers: Servers) -> None:
        seen: list[str] = []
        leader, apply = servers.leader, servers.leader.backend.apply

        async def applying(actions: Sequence[Action]) -> None:
            seen.extend(type(action).__name__ for action in actions)
            await apply(actions)

        leader.before_launch = lambda: seen.append("announced")
        leader.backend.apply = applying  # type: ignore[method-assign]
        await servers.submit("short", command="sleep 10")
        await servers.in_phase("short", "succeeded")
        await asyncio.sleep(5)
        assert seen == ["announced", "LaunchTask", "ForgetTask"]

    live(story)
