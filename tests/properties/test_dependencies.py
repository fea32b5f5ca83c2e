"""Jobs that wait for others, in any order and with a server that dies at any moment: each runs exactly when it may."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openpai.lifecycle.dependencies import MEETS, Met
from openpai.lifecycle.model import JOB_FINAL, JobPhase
from openpai.protocol.dependencies import Until
from openpai.protocol.errors import InvalidProtocol
from tests.unit.orchestrator.servers import Servers, live

ENDS = {"succeeded": "sleep 7", "failed": "sleep 5; exit 1", "stopped": "sleep 100000"}


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[str, list[tuple[int, Until]], int]]:
    """Return jobs, each with its own end, earlier jobs that it waits for, and the seconds until the next is sent."""
    jobs = []
    for number in range(draw(st.integers(2, 7))):
        others = st.lists(st.integers(0, number - 1), unique=True, max_size=3) if number else st.just([])
        after = [(other, draw(st.sampled_from(Until))) for other in draw(others)]
        jobs.append((draw(st.sampled_from(sorted(ENDS))), after, draw(st.sampled_from([0, 0, 3, 20]))))
    return jobs


@pytest.mark.full
@given(graphs(), st.lists(st.integers(0, 40), max_size=3))
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_each_job_runs_when_it_may_and_otherwise_ends_unstarted(graph: Any, deaths: list[int]) -> None:
    async def story(servers: Servers) -> None:
        sent: dict[int, None] = {}
        for number, (end, after, pause_s) in enumerate(graph):
            entries = [{"job": f"j{other}", "until": until.value} for other, until in after if other in sent]
            try:
                await servers.submit(f"j{number}", gpus=1, command=ENDS[end], extras={"after": entries})
                sent[number] = None
            except InvalidProtocol:
                phases = [(until, (await servers.row(f"j{other}")).phase) for other, until in after if other in sent]
                assert any(MEETS.get((until, JobPhase(phase))) is Met.NEVER for until, phase in phases)
            await asyncio.sleep(pause_s)
        for delay_s in deaths:
            await asyncio.sleep(delay_s)
            await servers.restart()
        await _end_all(servers, graph, sent)
        await _judge(servers, graph, sent)

    live(story)


async def _end_all(servers: Servers, graph: Any, sent: dict[int, None]) -> None:
    """Let time pass until all jobs are over; jobs that run for ever are stopped by their user."""

    async def are_over() -> bool:
        over = True
        for number in sent:
            row = await servers.row(f"j{number}")
            over = over and row.phase in JOB_FINAL
            if graph[number][0] == "stopped" and row.phase == "running":
                await servers.commands.stop("ann", f"j{number}", "ann")
        return over

    await servers.until(are_over)


async def _judge(servers: Servers, graph: Any, sent: dict[int, None]) -> None:
    ends: dict[int, JobPhase] = {}
    for number in sent:
        end, after, _ = graph[number]
        row = await servers.row(f"j{number}")
        met = [MEETS[until, ends[other]] for other, until in after if other in sent]
        may_run = all(one is Met.YES for one in met)
        ends[number] = JobPhase(end) if may_run else JobPhase.STOPPED
        assert row.phase == ends[number].value, (number, graph)
        assert (row.started_at_ms is not None) is may_run
        for other, _until in after if may_run else ():
            if other in sent:
                before = await servers.row(f"j{other}")
                assert (before.ended_at_ms or 0) <= (row.started_at_ms or 0)
