"""A sweep is submitted whole or not at all, and never runs more of its jobs than it may, whatever the server does."""

from __future__ import annotations

from typing import Any

import pytest

from openpai.access.quotas import Quota
from openpai.ports.platform import Submitter
from openpai.ports.queries import JobFilter
from openpai.protocol.errors import InvalidProtocol, Refused
from openpai.protocol.reading import read_job
from openpai.protocol.sweeps import membership_of
from tests.unit.orchestrator.servers import Servers, job, live

MATRIX = {"lr": [0.1, 0.01], "seed": [1, 2, 3]}


def sweep(name: str = "train", *, parameters: Any = None, **about: Any) -> bytes:
    given = {"matrix": MATRIX, **about}
    return job(name, parameters=parameters or {"lr": 1, "seed": 1}, extras={"sweep": given}, command="sleep 10")


async def phases(servers: Servers, name: str = "train") -> list[str]:
    page = await servers.queries.jobs(JobFilter(sweeps=(name,), limit=1000), count=False)
    return [row.phase for row in sorted(page.jobs, key=lambda row: int(row.name.rpartition("-")[2]))]


@pytest.mark.parametrize("restarts", [False, True])
def test_no_more_jobs_of_a_sweep_run_than_it_allows_and_all_of_them_do_in_their_order(restarts: bool) -> None:
    async def story(servers: Servers) -> None:
        found = await servers.commands.submit_sweep(Submitter("ann"), sweep(maxRunning=2))
        assert found.jobs == tuple(f"train-{number}" for number in range(1, 7))
        most = 0

        async def are_over() -> bool:
            nonlocal most
            now = await phases(servers)
            busy = [phase for phase in now if phase not in ("held", "succeeded")]
            most = max(most, len(busy))
            # Those that wait are always the last ones.
            assert "held" not in now[: len(now) - now.count("held")]
            return now == ["succeeded"] * 6

        await servers.until(lambda: _is(servers, 4))
        assert [wait.message for wait in await servers.why("train-6")] == ["sweep train runs 2 of its jobs at a time"]
        if restarts:
            await servers.restart()
        await servers.until(are_over)
        assert most <= 2

    live(story)


async def _is(servers: Servers, held: int) -> bool:
    return (await phases(servers)).count("held") == held


def test_stopping_a_held_or_a_running_job_lets_the_next_one_run() -> None:
    async def story(servers: Servers) -> None:
        await servers.commands.submit_sweep(Submitter("ann"), sweep(maxRunning=1))
        await servers.until(lambda: _is(servers, 5))
        for number in (2, 1):
            await servers.commands.stop("ann", f"train-{number}", "ann")
        await servers.in_phase("train-3", "succeeded")
        assert (await phases(servers))[:3] == ["stopped", "stopped", "succeeded"]

    live(story)


def test_a_sweep_with_dependencies_waits_for_both() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("prepare", command="sleep 60")
        text = job(
            "train", parameters={"lr": 1, "seed": 1}, command="sleep 10",
            extras={"sweep": {"matrix": MATRIX, "maxRunning": 3}, "after": ["prepare"]},
        )  # fmt: skip
        await servers.commands.submit_sweep(Submitter("ann"), text)
        await servers.in_phase("prepare", "running")
        assert await phases(servers) == ["held"] * 6
        await servers.until(lambda: _is(servers, 3))
        await servers.in_phase("train-6", "succeeded")

    live(story)


def test_all_jobs_are_stored_or_none_and_a_repeated_submission_is_the_same_sweep() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("train-4")
        with pytest.raises(Refused, match="already has a job of one of the names train-1 to train-6"):
            await servers.commands.submit_sweep(Submitter("ann"), sweep())
        assert await phases(servers) == []
        quota = Quota(jobs_unfinished=6)
        with pytest.raises(Refused, match="has 1 unfinished job and asks for 6 more"):
            await servers.commands.submit_sweep(Submitter("ann", quotas=(quota,)), sweep("other"))
        by = Submitter("ann", idempotency_key="k")
        first = await servers.commands.submit_sweep(by, sweep("other"))
        assert await servers.commands.submit_sweep(by, sweep("other")) == first
        assert len(await phases(servers, "other")) == 6
        with pytest.raises(Refused, match="used this idempotency key for another file"):
            await servers.commands.submit_sweep(by, sweep("third"))

    live(story)


def test_a_job_of_a_sweep_has_its_combination_and_a_clone_of_it_belongs_to_none() -> None:
    async def story(servers: Servers) -> None:
        await servers.commands.submit_sweep(Submitter("ann"), sweep())
        spec = await servers.queries.spec((await servers.row("train-5")).id)
        assert spec is not None
        member = membership_of(spec.extras)
        assert member is not None
        assert (dict(spec.parameters), member.number, member.count) == ({"lr": 0.01, "seed": 2}, 5, 6)
        await servers.submit("clone", extras=dict(spec.extras))
        assert "sweep" not in (await servers.queries.spec((await servers.row("clone")).id)).extras  # type: ignore[union-attr]
        assert len(await phases(servers)) == 6

    live(story)


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"matrix": {"lr": [1, 1]}}, "has the same value twice"),
        ({"matrix": {"lrr": [1, 2]}}, "is no parameter of the job"),
        ({"matrix": {"lr": list(range(1000)), "seed": list(range(1000))}}, "makes 1,000,000 jobs"),
    ],
)
def test_a_matrix_that_cannot_be_carried_out_is_refused_before_anything_is_made(
    about: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidProtocol, match=message):
        read_job(sweep(**about))


def test_a_file_with_a_matrix_is_no_job_and_a_file_without_one_no_sweep() -> None:
    async def story(servers: Servers) -> None:
        with pytest.raises(InvalidProtocol, match="makes this file a sweep"):
            await servers.commands.submit(Submitter("ann"), sweep())
        with pytest.raises(InvalidProtocol, match="has no matrix"):
            await servers.commands.submit_sweep(Submitter("ann"), job("train"))

    live(story)
