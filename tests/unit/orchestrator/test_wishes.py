"""What people wish for their jobs beyond starting and stopping: limits, quotas, urgency, places in the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from openpai.backends.simulated.nodes import virtual_nodes
from openpai.orchestrator import acting
from openpai.orchestrator.launching import launches
from openpai.orchestrator.office import Office
from openpai.orchestrator.submitting import no_room
from openpai.ports.backend import LaunchTask
from openpai.ports.platform import Submitter
from openpai.ports.settings import FAIRNESS
from openpai.ports.store import JobRecord
from openpai.ports.usage import AuditEntry, AuditFilter, BeyondQuota, Quota
from openpai.protocol.errors import Refused
from openpai.scheduler.model import Why
from openpai.store.schema import jobs
from tests.unit.orchestrator.house import House, live

ONE = virtual_nodes(1, 4, cpus=16)


def prio(name: str, **more: Any) -> dict[str, Any]:
    return {"hivedScheduler": {"jobPriorityClass": name, **more}}


def test_an_attempt_is_stopped_when_its_time_is_up() -> None:
    async def story(house: House) -> None:
        await house.submit("short", extras={"timeLimitMinutes": 5})
        await house.submit("quick", extras={"timeLimitMinutes": 5}, command="sleep 60")
        await house.in_phase("short", "running")
        took_s = await house.in_phase("short", "failed")
        assert 299 <= took_s <= 302
        assert (await house.row("quick")).phase == "succeeded"
        (event,) = [row.event for row in await house.events("short") if row.event.reason == "TimeLimitReached"]
        assert "time limit of 5 minutes" in event.message
        assert event.is_warning

    live(story)


def test_a_time_limit_outlives_the_server_and_begins_with_each_attempt() -> None:
    async def story(house: House) -> None:
        await house.submit("again", extras={"timeLimitMinutes": 5}, command="sleep 200; exit 1", jobRetryCount=1)
        await house.in_phase("again", "running")
        await asyncio.sleep(250)
        assert (await house.row("again")).attempt == 1
        await house.restart()
        await house.in_phase("again", "failed")

    live(story)


def test_a_private_job_and_one_with_a_limit_are_remembered_as_such() -> None:
    async def story(house: House) -> None:
        await house.submit("hidden", extras={"private": True, "timeLimitMinutes": 90})
        await house.submit("open")
        assert (await house.row("hidden")).is_private
        assert not (await house.row("open")).is_private
        limit = house.office.desk.records[(await house.row("hidden")).id].time_limit_ms
        assert limit == 90 * 60_000

    live(story)


def test_a_more_urgent_job_takes_the_place_of_an_opportunistic_one() -> None:
    async def story(house: House) -> None:
        await house.submit("guest", gpus=4, extras=prio("oppo"))
        await house.in_phase("guest", "running")
        await house.submit("urgent", gpus=4, extras=prio("prod"), command="sleep 100")
        await house.in_phase("urgent", "running", within_s=60)
        row = await house.row("guest")
        assert (row.phase, row.attempt, row.retries_counted, row.retries_free) == ("queued", 1, 0, 0)
        reasons = [each.event.reason for each in await house.events("guest")]
        assert "AttemptPreempted" in reasons
        await house.in_phase("guest", "running")

    live(story, ONE)


@pytest.mark.parametrize("place", ["a", "b"])
def test_urgency_and_rank_change_who_goes_first_on_any_server(place: str) -> None:
    async def story(house: House) -> None:
        await house.start("b")
        wishes = house.servers[place].wishes
        await house.submit("now", gpus=4, command="sleep 100", extras=prio("crit"))
        for name in ("first", "second", "third"):
            await house.submit(name, gpus=4, command="sleep 100")
        await wishes.set_priority("ann", "third", "prod", "ann")
        await wishes.set_rank("ann", "second", 5, "root")
        await asyncio.sleep(5)
        positions = {name: (await house.wishes.why("ann", name))[0].position for name in ("first", "second", "third")}
        assert sorted(positions, key=positions.__getitem__) == ["third", "second", "first"]
        assert [(await house.row(name)).rank for name in ("second", "third")] == [5, 0]
        assert (await house.row("third")).priority_class == "prod"
        assert "PriorityChanged" in [row.event.reason for row in await house.events("third")]
        for name in ("third", "second", "first"):
            await house.in_phase(name, "running")

    live(story, ONE)


def test_a_job_that_is_over_or_pinned_is_not_made_opportunistic() -> None:
    async def story(house: House) -> None:
        await house.submit("train", command="true")
        await house.in_phase("train", "succeeded")
        for wish in (
            house.wishes.set_priority("ann", "train", "prod", "ann"),
            house.wishes.set_rank("ann", "train", 1, "ann"),
            house.wishes.checkpointed("ann", "train"),
        ):
            with pytest.raises(Refused, match="is over") as refused:
                await wish
            assert (refused.value.code, refused.value.status) == ("FinishedJobError", 409)
        with pytest.raises(Refused, match="no priority class"):
            await house.wishes.set_priority("ann", "train", "urgent", "ann")

    live(story)


def test_who_saved_its_work_last_is_chosen_to_leave() -> None:
    async def story(house: House) -> None:
        for name in ("older", "newer"):
            await house.submit(name, gpus=2, extras=prio("oppo"))
            await house.in_phase(name, "running")
            await asyncio.sleep(600)
        await house.wishes.checkpointed("ann", "older")
        await house.restart()
        await asyncio.sleep(1)
        await house.submit("urgent", gpus=2)
        await house.in_phase("urgent", "running", within_s=60)
        assert [(await house.row(name)).attempt for name in ("older", "newer")] == [1, 0]

    live(story, ONE)


def test_a_job_that_cannot_be_launched_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def sick_launches(office: Office, record: JobRecord, *rest: Any) -> Iterator[LaunchTask]:
        if record.name == "sick":
            raise AttributeError("an oversight of ours")
        return launches(office, record, *rest)

    async def story(house: House) -> None:
        monkeypatch.setattr(acting, "launches", sick_launches)
        await house.submit("sick")
        await house.submit("sound", command="sleep 10")
        await house.in_phase("sound", "succeeded")
        await house.in_phase("sick", "failed")

    live(story)


def test_the_same_submission_again_is_the_same_job() -> None:
    async def story(house: House) -> None:
        quota = Quota("default", "ann", jobs_unfinished=1)
        by = Submitter("ann", idempotency_key="k1", quotas=(quota,))
        first = await house.submit("train", by)
        assert await house.submit("train", by) == first
        with pytest.raises(Refused, match="used this idempotency key for another file"):
            await house.submit("other", by)
        with pytest.raises(Refused, match="already has a job named 'train'") as refused:
            await house.submit("train")
        assert "pai job archive train" in refused.value.advice
        assert (await house.submit("train", Submitter("bob", idempotency_key="k1"))).job != first.job

    live(story)


def test_a_submission_leaves_its_entry_in_the_audit_log() -> None:
    async def story(house: House) -> None:
        entry = AuditEntry(1, "ann", "job.submit", "ann~train", "ann", status=202)
        await house.submit("train", Submitter("ann", audit=entry))
        (row,) = await house.usage.audit(AuditFilter())
        assert row.entry == entry
        with pytest.raises(Refused):
            await house.submit("train", Submitter("ann", audit=entry))
        assert len(await house.usage.audit(AuditFilter())) == 1

    live(story)


def test_nobody_gets_more_than_their_quota() -> None:
    # One life for all of them: an hour of it is what takes long.
    each_with_what_is_told = (
        (Quota("default", "", gpus_per_job=3), "asks for 4 GPUs, and each user in virtual cluster default may ask for"),
        (Quota("", "ann", gpus_per_job=3), "asks for 4 GPUs, and ann may ask for 3"),
        (Quota("", "", jobs_unfinished=1), "ann has 1 unfinished job, and each user may have 1"),
        (Quota("default", "ann", jobs_unfinished=1), "ann has 1 unfinished job, and ann in virtual cluster"),
        (Quota("default", "ann", gpu_hours_per_month=2.5), "ann has used 4 GPU hours this month, and ann in virtual"),
    )

    async def story(house: House) -> None:
        await house.submit("before", gpus=4)
        await house.in_phase("before", "running")
        await asyncio.sleep(3600)
        for number, (quota, told) in enumerate(each_with_what_is_told):
            with pytest.raises(Refused, match=told) as refused:
                await house.submit("train", Submitter("ann", quotas=(quota,)), gpus=4)
            assert refused.value.code == "NoEnoughQuotaError"
            await house.submit("train", Submitter(f"bob-{number}", quotas=(quota,)), gpus=1)

    live(story)


def test_a_job_that_is_over_runs_again_within_the_quotas_of_its_owner_only() -> None:
    quotas = (
        Quota("default", "", gpus_per_job=3),
        Quota("", "", jobs_unfinished=1),
        Quota("default", "ann", gpu_hours_per_month=2.5),
    )

    async def story(house: House) -> None:
        await house.submit("other", gpus=1)
        await house.submit("train", gpus=4)
        await house.in_phase("train", "running")
        await asyncio.sleep(3600)
        for quota in quotas:
            await house.wishes.stop("ann", "train", "ann")
            await house.wishes.start("ann", "train", "ann")  # it is not over yet, and nothing is asked of its quota
            await house.wishes.stop("ann", "train", "ann")
            await house.in_phase("train", "stopped")
            await house.usage.set_quota(quota)
            with pytest.raises(Refused) as refused:
                await house.wishes.start("ann", "train", "root")
            assert refused.value.code == "NoEnoughQuotaError"
            assert (await house.row("train")).phase == "stopped"
            await house.usage.remove_quota(quota.virtual_cluster, quota.user)
            await house.wishes.start("ann", "train", "ann")
            await house.in_phase("train", "running")

    live(story)


def test_ones_own_quota_counts_before_the_one_for_everybody() -> None:
    async def story(house: House) -> None:
        quotas = (Quota("default", "", gpus_per_job=1), Quota("default", "ann", gpus_per_job=4))
        await house.submit("train", Submitter("ann", quotas=quotas), gpus=4)
        with pytest.raises(Refused):
            await house.submit("train", Submitter("bob", quotas=quotas), gpus=2)

    live(story)


def test_a_quota_of_ones_own_without_gpus_lifts_the_limit_for_everybody() -> None:
    async def story(house: House) -> None:
        await house.usage.set_quota(Quota("default", "", gpus_running=1))
        await house.usage.set_quota(Quota("default", "ann", jobs_unfinished=9))
        await house.wishes.limits_changed()
        await house.submit("large", "ann", gpus=2)
        await house.in_phase("large", "running")

    live(story)


@pytest.mark.parametrize(
    ("limit", "advice"),
    [
        (2, "wait for one to end, or stop one, or ask an administrator"),
        (1, "wait for 2 of them to end, or stop 2, or ask an administrator"),
        (0, "ask an administrator"),
    ],
)
def test_who_has_too_many_jobs_is_told_what_would_make_room(limit: int, advice: str) -> None:
    assert no_room("ann", BeyondQuota(Quota(jobs_unfinished=limit), 2)).advice.startswith(advice)


def test_what_is_beyond_a_limit_waits_and_says_so() -> None:
    async def story(house: House) -> None:
        await house.usage.set_quota(Quota("default", "ann", gpus_running=2))
        await house.wishes.limits_changed()
        await house.submit("first", gpus=2)
        await house.in_phase("first", "running")
        await house.submit("second", gpus=1)
        await asyncio.sleep(1)
        (wait,) = await house.wishes.why("ann", "second")
        assert wait.code is Why.USER_LIMIT
        # Wherever a limit was changed, the leader sees it soon.
        await house.usage.remove_quota("default", "ann")
        await house.in_phase("second", "running", within_s=30)

    live(story)


def test_what_people_used_counts_after_a_restart() -> None:
    async def story(house: House) -> None:
        await house.submit("before", "ann", gpus=4, command="sleep 600")
        await house.in_phase("before", "succeeded", within_s=10_000)
        await house.restart()
        await asyncio.sleep(1)
        await house.submit("now", "cat", gpus=4, command="sleep 100")
        await house.submit("ours", "ann", gpus=4)
        await house.submit("ours", "bob", gpus=4)
        await house.in_phase("ours", "running", "bob")
        assert (await house.row("ours")).phase == "queued"

    live(story, ONE)


def test_use_may_be_left_out_of_the_comparison() -> None:
    async def story(house: House) -> None:
        await house.settings.set_setting(FAIRNESS, {"halfLifeHours": None}, by="root", at_ms=1)
        await house.wishes.limits_changed()
        await house.submit("before", "ann", gpus=4, command="sleep 600")
        await house.in_phase("before", "succeeded", within_s=10_000)
        await house.submit("now", "cat", gpus=4, command="sleep 100")
        await house.submit("ours", "ann", gpus=4)
        await house.submit("ours", "bob", gpus=4)
        await house.in_phase("ours", "running")
        assert (await house.row("ours", "bob")).phase == "queued"

    live(story, ONE)


def test_affinity_groups_of_a_gang_start_together_on_what_each_wants() -> None:
    nodes = (*virtual_nodes(1, 2, cpus=16, gpu_model="V100"), *virtual_nodes(2, 2, cpus=16, gpu_model="K80")[1:])

    async def story(house: House) -> None:
        wishes = {"left": {"skuType": "V100", "affinityGroupName": "a"}, "right": {"skuType": "K80"}}
        extras = {"hivedScheduler": {"taskRoles": wishes}}
        roles = {"left": {"instances": 2}, "right": {"instances": 2}}
        blocker = await house.submit(
            "blocker", gpus=2, extras={"hivedScheduler": {"taskRoles": {"worker": wishes["right"]}}}
        )
        await house.in_phase("blocker", "running")
        submitted = await house.submit("pair", roles=roles, extras=extras)
        await asyncio.sleep(60)
        assert house.where(submitted.job) == set()
        await house.wishes.stop("ann", "blocker", "ann")
        await house.in_phase("pair", "running")
        tasks = [task for task in house.cluster.running() if task.key.job == submitted.job]
        assert {(task.key.role, task.node) for task in tasks} == {("left", "node-01"), ("right", "node-02")}
        await house.restart()
        await asyncio.sleep(1)
        assert len(house.office.scheduler.inspect()["affinityGroups"]) == 1
        assert blocker.job != submitted.job

    live(story, nodes)


def test_a_gang_stays_inside_one_node_if_it_must() -> None:
    async def story(house: House) -> None:
        near = {"hivedScheduler": {"topology": {"cellType": "Simulated-GPU-NODE", "required": True}}}
        await house.submit("half", gpus=3, instances=2)
        await house.in_phase("half", "running")
        await house.submit("near", instances=2, extras=near)
        await asyncio.sleep(60)
        assert (await house.row("near")).phase == "queued"
        with pytest.raises(Refused, match="there is no cell type 'RACK'"):
            await house.submit("far", extras={"hivedScheduler": {"topology": {"cellType": "RACK"}}})
        with pytest.raises(Refused, match="inside one Simulated-GPU-NODE"):
            await house.submit("wide", instances=5, extras=near)

    live(story, virtual_nodes(2, 4, cpus=16))


def test_tasks_sit_after_a_restart_where_they_sat_before() -> None:
    async def story(house: House) -> None:
        for name, gpus in (("a", 0), ("b", 1), ("c", 0), ("d", 2)):
            await house.submit(name, gpus=gpus, roles={"worker": {"resourcePerInstance": _cpus(5, gpus)}})
            await house.in_phase(name, "running")
        before = house.office.scheduler.inspect()["physicalCluster"]
        await house.restart()
        await asyncio.sleep(1)
        assert house.office.scheduler.inspect()["physicalCluster"] == before
        rows = await house.database.read(lambda connection: connection.execute(sa.select(jobs.c.phase)).all())
        assert [row.phase for row in rows] == ["running"] * 4

    live(story, virtual_nodes(2, 4, cpus=16))


def _cpus(cpus: int, gpus: int) -> dict[str, int]:
    return {"cpu": cpus, "memoryMB": 64, "gpu": gpus}
