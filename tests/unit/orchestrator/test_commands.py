"""Commands about jobs beyond starting and stopping: limits, quotas, priority, rank."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from openpai.access.quotas import Quota
from openpai.backends.simulated.backend import virtual_nodes
from openpai.orchestrator import acting
from openpai.orchestrator.launching import launches
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.submitting import no_room
from openpai.ports.backend import LaunchTask
from openpai.ports.cluster_settings import FAIRNESS
from openpai.ports.platform import Submitter
from openpai.ports.store import JobRecord
from openpai.ports.usage import AuditEntry, AuditFilter, BeyondQuota
from openpai.protocol.errors import Refused
from openpai.scheduler.model import Why
from openpai.store.schema import jobs
from tests.unit.orchestrator.servers import Servers, live

ONE = virtual_nodes(1, 4, cpus=16)


def prio(name: str, **more: Any) -> dict[str, Any]:
    return {"hivedScheduler": {"jobPriorityClass": name, **more}}


@pytest.mark.slow
def test_an_attempt_is_stopped_when_its_time_is_up() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("short", extras={"timeLimitMinutes": 5})
        await servers.submit("quick", extras={"timeLimitMinutes": 5}, command="sleep 60")
        await servers.in_phase("short", "running")
        took_s = await servers.in_phase("short", "failed")
        assert 299 <= took_s <= 302
        assert (await servers.row("quick")).phase == "succeeded"
        (event,) = [row.event for row in await servers.events("short") if row.event.reason == "TimeLimitReached"]
        assert "time limit of 5 minutes" in event.message
        assert event.is_warning

    live(story)


@pytest.mark.slow
def test_a_time_limit_outlives_the_server_and_begins_with_each_attempt() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("again", extras={"timeLimitMinutes": 5}, command="sleep 200; exit 1", jobRetryCount=1)
        await servers.in_phase("again", "running")
        await asyncio.sleep(250)
        assert (await servers.row("again")).attempt == 1
        await servers.restart()
        await servers.in_phase("again", "failed")

    live(story)


def test_a_private_job_and_one_with_a_limit_are_remembered_as_such() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("hidden", extras={"private": True, "timeLimitMinutes": 90})
        await servers.submit("open")
        assert (await servers.row("hidden")).is_private
        assert not (await servers.row("open")).is_private
        limit = servers.leader.active.records[(await servers.row("hidden")).id].time_limit_ms
        assert limit == 90 * 60_000

    live(story)


def test_a_more_urgent_job_takes_the_place_of_an_opportunistic_one() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("guest", gpus=4, extras=prio("oppo"))
        await servers.in_phase("guest", "running")
        await servers.submit("urgent", gpus=4, extras=prio("prod"), command="sleep 100")
        await servers.in_phase("urgent", "running", within_s=60)
        row = await servers.row("guest")
        assert (row.phase, row.attempt, row.retries_counted, row.retries_free) == ("queued", 1, 0, 0)
        reasons = [each.event.reason for each in await servers.events("guest")]
        assert "AttemptPreempted" in reasons
        await servers.in_phase("guest", "running")

    live(story, ONE)


@pytest.mark.parametrize("place", ["a", "b"])
def test_priority_and_rank_change_the_order_on_any_server(place: str) -> None:
    async def story(servers: Servers) -> None:
        await servers.start("b")
        commands = servers.servers[place].commands
        await servers.submit("now", gpus=4, command="sleep 20", extras=prio("crit"))
        for name in ("first", "second", "third"):
            await servers.submit(name, gpus=4, command="sleep 20")
        await commands.set_priority("ann", "third", "prod", "ann")
        await commands.set_rank("ann", "second", 5, "root")
        await asyncio.sleep(5)
        positions = {name: (await servers.why(name))[0].position for name in ("first", "second", "third")}
        assert sorted(positions, key=positions.__getitem__) == ["third", "second", "first"]
        assert [(await servers.row(name)).rank for name in ("second", "third")] == [5, 0]
        assert (await servers.row("third")).priority_class == "prod"
        assert "PriorityChanged" in [row.event.reason for row in await servers.events("third")]
        for name in ("third", "second", "first"):
            await servers.in_phase(name, "running")

    live(story, ONE)


def test_a_job_that_is_over_or_pinned_is_not_made_opportunistic() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("train", command="true")
        await servers.in_phase("train", "succeeded")
        for promise in (
            servers.commands.set_priority("ann", "train", "prod", "ann"),
            servers.commands.set_rank("ann", "train", 1, "ann"),
            servers.commands.checkpointed("ann", "train"),
        ):
            with pytest.raises(Refused, match="is over") as refused:
                await promise
            assert (refused.value.code, refused.value.status) == ("FinishedJobError", 409)
        with pytest.raises(Refused, match="no priority class"):
            await servers.commands.set_priority("ann", "train", "urgent", "ann")

    live(story)


@pytest.mark.slow
def test_the_job_that_saved_its_work_last_is_preempted() -> None:
    async def story(servers: Servers) -> None:
        for name in ("older", "newer"):
            await servers.submit(name, gpus=2, extras=prio("oppo"))
            await servers.in_phase(name, "running")
            await asyncio.sleep(300)
        await servers.commands.checkpointed("ann", "older")
        await servers.restart()
        await asyncio.sleep(1)
        await servers.submit("urgent", gpus=2)
        await servers.in_phase("urgent", "running", within_s=60)
        assert [(await servers.row(name)).attempt for name in ("older", "newer")] == [1, 0]

    live(story, ONE)


@pytest.mark.slow
def test_a_job_that_cannot_be_launched_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def sick_launches(leader: Leader, record: JobRecord, *rest: Any) -> Iterator[LaunchTask]:
        if record.name == "sick":
            raise AttributeError("an oversight of ours")
        return launches(leader, record, *rest)

    async def story(servers: Servers) -> None:
        monkeypatch.setattr(acting, "launches", sick_launches)
        await servers.submit("sick")
        await servers.submit("sound", command="sleep 10")
        await servers.in_phase("sound", "succeeded")
        await servers.in_phase("sick", "failed")

    live(story)


def test_the_same_submission_again_is_the_same_job() -> None:
    async def story(servers: Servers) -> None:
        quota = Quota("default", "ann", jobs_unfinished=1)
        by = Submitter("ann", idempotency_key="k1", quotas=(quota,))
        first = await servers.submit("train", by)
        assert await servers.submit("train", by) == first
        with pytest.raises(Refused, match="used this idempotency key for another file"):
            await servers.submit("other", by)
        with pytest.raises(Refused, match="already has a job named 'train'") as refused:
            await servers.submit("train")
        assert "pai job archive train" in refused.value.advice
        assert (await servers.submit("train", Submitter("bob", idempotency_key="k1"))).job != first.job

    live(story)


def test_a_submission_leaves_its_entry_in_the_audit_log() -> None:
    async def story(servers: Servers) -> None:
        entry = AuditEntry(1, "ann", "job.submit", "ann~train", "ann", status=202)
        await servers.submit("train", Submitter("ann", audit=entry))
        (row,) = await servers.usage.audit(AuditFilter())
        assert row.entry == entry
        with pytest.raises(Refused):
            await servers.submit("train", Submitter("ann", audit=entry))
        assert len(await servers.usage.audit(AuditFilter())) == 1

    live(story)


def test_no_user_gets_more_than_their_quota() -> None:
    each_with_its_message = (
        (Quota("default", "", gpus_per_job=3), "asks for 4 GPUs, and each user in virtual cluster default may ask for"),
        (Quota("", "ann", gpus_per_job=3), "asks for 4 GPUs, and ann may ask for 3"),
        (Quota("", "", jobs_unfinished=1), "ann has 1 unfinished job, and each user may have 1"),
        (Quota("default", "ann", jobs_unfinished=1), "ann has 1 unfinished job, and ann in virtual cluster"),
        (
            Quota("default", "ann", gpu_hours_per_month=0.25),
            r"ann has used 0.4\d* GPU hours this month, and ann in virtual",
        ),
    )

    async def story(servers: Servers) -> None:
        await servers.submit("before", gpus=4)
        await servers.in_phase("before", "running")
        await asyncio.sleep(360)
        for number, (quota, message) in enumerate(each_with_its_message):
            with pytest.raises(Refused, match=message) as refused:
                await servers.submit("train", Submitter("ann", quotas=(quota,)), gpus=4)
            assert refused.value.code == "NoEnoughQuotaError"
            await servers.submit("train", Submitter(f"bob-{number}", quotas=(quota,)), gpus=1)

    live(story)


def test_a_job_that_is_over_runs_again_within_the_quotas_of_its_owner_only() -> None:
    quotas = (
        Quota("default", "", gpus_per_job=3),
        Quota("", "", jobs_unfinished=1),
        Quota("default", "ann", gpu_hours_per_month=0.25),
    )

    async def story(servers: Servers) -> None:
        await servers.submit("other", gpus=1)
        await servers.submit("train", gpus=4)
        await servers.in_phase("train", "running")
        await asyncio.sleep(360)
        for quota in quotas:
            await servers.commands.stop("ann", "train", "ann")
            await servers.commands.start("ann", "train", "ann")  # it is not over yet, and nothing is asked of its quota
            await servers.commands.stop("ann", "train", "ann")
            await servers.in_phase("train", "stopped")
            await servers.usage.set_quota(quota)
            with pytest.raises(Refused) as refused:
                await servers.commands.start("ann", "train", "root")
            assert refused.value.code == "NoEnoughQuotaError"
            assert (await servers.row("train")).phase == "stopped"
            await servers.usage.remove_quota(quota.virtual_cluster, quota.user)
            await servers.commands.start("ann", "train", "ann")
            await servers.in_phase("train", "running")

    live(story)


def test_a_users_own_quota_overrides_the_one_for_all_users() -> None:
    async def story(servers: Servers) -> None:
        quotas = (Quota("default", "", gpus_per_job=1), Quota("default", "ann", gpus_per_job=4))
        await servers.submit("train", Submitter("ann", quotas=quotas), gpus=4)
        with pytest.raises(Refused):
            await servers.submit("train", Submitter("bob", quotas=quotas), gpus=2)

    live(story)


def test_a_users_own_quota_without_gpus_lifts_the_limit_for_all_users() -> None:
    async def story(servers: Servers) -> None:
        await servers.usage.set_quota(Quota("default", "", gpus_running=1))
        await servers.usage.set_quota(Quota("default", "ann", jobs_unfinished=9))
        await servers.commands.limits_changed()
        await servers.submit("large", "ann", gpus=2)
        await servers.in_phase("large", "running")

    live(story)


@pytest.mark.parametrize(
    ("limit", "advice"),
    [
        (2, "wait for one to end, or stop one, or ask an administrator"),
        (1, "wait for 2 of them to end, or stop 2, or ask an administrator"),
        (0, "ask an administrator"),
    ],
)
def test_a_user_with_too_many_jobs_is_advised_how_many_must_end(limit: int, advice: str) -> None:
    assert no_room("ann", BeyondQuota(Quota(jobs_unfinished=limit), 2)).advice.startswith(advice)


def test_a_job_beyond_a_limit_waits_with_that_reason() -> None:
    async def story(servers: Servers) -> None:
        await servers.usage.set_quota(Quota("default", "ann", gpus_running=2))
        await servers.commands.limits_changed()
        await servers.submit("first", gpus=2)
        await servers.in_phase("first", "running")
        await servers.submit("second", gpus=1)
        await asyncio.sleep(1)
        (wait,) = await servers.why("second")
        assert wait.code is Why.USER_LIMIT
        # A limit may be changed on any server; the leader sees it soon.
        await servers.usage.remove_quota("default", "ann")
        await servers.in_phase("second", "running", within_s=30)

    live(story)


@pytest.mark.slow
def test_use_before_a_restart_counts_after_it() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("before", "ann", gpus=4, command="sleep 300")
        await servers.in_phase("before", "succeeded", within_s=10_000)
        await servers.restart()
        await asyncio.sleep(1)
        await servers.submit("now", "cat", gpus=4, command="sleep 100")
        await servers.submit("ours", "ann", gpus=4)
        await servers.submit("ours", "bob", gpus=4)
        await servers.in_phase("ours", "running", "bob")
        assert (await servers.row("ours")).phase == "queued"

    live(story, ONE)


@pytest.mark.slow
def test_use_may_be_left_out_of_the_comparison() -> None:
    async def story(servers: Servers) -> None:
        await servers.settings.set_setting(FAIRNESS, {"halfLifeHours": None}, by="root", at_ms=1)
        await servers.commands.limits_changed()
        await servers.submit("before", "ann", gpus=4, command="sleep 300")
        await servers.in_phase("before", "succeeded", within_s=10_000)
        await servers.submit("now", "cat", gpus=4, command="sleep 100")
        await servers.submit("ours", "ann", gpus=4)
        await servers.submit("ours", "bob", gpus=4)
        await servers.in_phase("ours", "running")
        assert (await servers.row("ours", "bob")).phase == "queued"

    live(story, ONE)


def test_affinity_groups_of_a_gang_start_together_on_what_each_wants() -> None:
    nodes = (*virtual_nodes(1, 2, cpus=16, gpu_model="V100"), *virtual_nodes(2, 2, cpus=16, gpu_model="K80")[1:])

    async def story(servers: Servers) -> None:
        commands = {"left": {"skuType": "V100", "affinityGroupName": "a"}, "right": {"skuType": "K80"}}
        extras = {"hivedScheduler": {"taskRoles": commands}}
        roles = {"left": {"instances": 2}, "right": {"instances": 2}}
        blocker = await servers.submit(
            "blocker", gpus=2, extras={"hivedScheduler": {"taskRoles": {"worker": commands["right"]}}}
        )
        await servers.in_phase("blocker", "running")
        submitted = await servers.submit("pair", roles=roles, extras=extras)
        await asyncio.sleep(60)
        assert servers.where(submitted.job) == set()
        await servers.commands.stop("ann", "blocker", "ann")
        await servers.in_phase("pair", "running")
        tasks = [task for task in servers.cluster.running() if task.key.job == submitted.job]
        assert {(task.key.role, task.node) for task in tasks} == {("left", "node-01"), ("right", "node-02")}
        await servers.restart()
        await asyncio.sleep(1)
        assert len(servers.leader.scheduler.inspect()["affinityGroups"]) == 1
        assert blocker.job != submitted.job

    live(story, nodes)


def test_a_gang_stays_inside_one_node_if_it_must() -> None:
    async def story(servers: Servers) -> None:
        near = {"hivedScheduler": {"topology": {"cellType": "Simulated-GPU-NODE", "required": True}}}
        await servers.submit("half", gpus=3, instances=2)
        await servers.in_phase("half", "running")
        await servers.submit("near", instances=2, extras=near)
        await asyncio.sleep(60)
        assert (await servers.row("near")).phase == "queued"
        with pytest.raises(Refused, match="there is no cell type 'RACK'"):
            await servers.submit("far", extras={"hivedScheduler": {"topology": {"cellType": "RACK"}}})
        with pytest.raises(Refused, match="inside one Simulated-GPU-NODE"):
            await servers.submit("wide", instances=5, extras=near)

    live(story, virtual_nodes(2, 4, cpus=16))


def test_tasks_keep_their_cells_after_a_restart() -> None:
    async def story(servers: Servers) -> None:
        for name, gpus in (("a", 0), ("b", 1), ("c", 0), ("d", 2)):
            await servers.submit(name, gpus=gpus, roles={"worker": {"resourcePerInstance": _cpus(5, gpus)}})
            await servers.in_phase(name, "running")
        before = servers.leader.scheduler.inspect()["physicalCluster"]
        await servers.restart()
        await asyncio.sleep(1)
        assert servers.leader.scheduler.inspect()["physicalCluster"] == before
        rows = await servers.database.read(lambda connection: connection.execute(sa.select(jobs.c.phase)).all())
        assert [row.phase for row in rows] == ["running"] * 4

    live(story, virtual_nodes(2, 4, cpus=16))


def _cpus(cpus: int, gpus: int) -> dict[str, int]:
    return {"cpu": cpus, "memoryMB": 64, "gpu": gpus}
