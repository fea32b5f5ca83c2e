"""Promises to virtual clusters, as administrators change them while jobs run."""

from __future__ import annotations

import json
import re

import pytest
import sqlalchemy as sa

from openpai.orchestrator.placement_hints import save_hints
from openpai.ports.cluster_settings import CLUSTER, DRAINS, PLACEMENT_HINTS
from openpai.ports.platform import NodeChange, NotLeading, Submitter
from openpai.ports.store import LeaseLost
from openpai.protocol.errors import InvalidProtocol, Refused
from openpai.store.schema import lease
from tests.unit.orchestrator.servers import FOUR, Servers, as_answer, live, promised

pytestmark = pytest.mark.slow

HIVED = """
physicalCluster:
  skuTypes: {K80: {gpu: 1, cpu: 4, memory: 100Gi}}
  cellTypes:
    K80-NODE: {childCellType: K80, childCellNumber: 4, isNodeLevel: true}
  physicalCells:
  - {cellType: K80-NODE, cellAddress: node-01, pinnedCellId: mine}
  - {cellType: K80-NODE, cellAddress: node-02}
  - {cellType: K80-NODE, cellAddress: node-09}
virtualClusters:
  default: {virtualCells: [{cellType: K80-NODE, cellNumber: 1}]}
  vision: {pinnedCells: [{pinnedCellId: mine}]}
"""


def healthy(servers: Servers) -> dict[str, int]:
    return {view.name: view.guaranteed.gpus for view in servers.leader.scheduler.virtual_clusters()}


def test_without_promises_default_has_everything() -> None:
    async def story(servers: Servers) -> None:
        assert promised(servers) == {"default": 16}
        config = await servers.commands.cluster_config()
        assert (config.promises, config.version, config.problems) == ("", 0, ())

    live(story)


def test_default_keeps_what_is_not_promised() -> None:
    async def story(servers: Servers) -> None:
        config = await servers.commands.configure(
            promises="vision: 2 nodes, speech: 2 GPUs", hived=None, version=0, by="root"
        )
        assert (config.version, config.problems, config.demoted) == (1, (), ())
        assert promised(servers) == {"default": 6, "speech": 2, "vision": 8}
        assert set(await servers.commands.sku_types("vision")) == {"Simulated-GPU"}
        with pytest.raises(Refused, match="no virtual cluster 'nobody'"):
            await servers.commands.sku_types("nobody")

    live(story)


def test_promises_that_version_0_1_stored_are_still_kept_and_can_be_changed() -> None:
    async def story(servers: Servers) -> None:
        await servers.settings.set_setting(CLUSTER, {"wishes": "vision: 2 nodes"}, by="root", at_ms=0)
        await servers.restart()
        assert promised(servers) == {"default": 8, "vision": 8}
        assert (await servers.commands.cluster_config()).promises == "vision: 2 nodes"
        await servers.commands.promise("speech", "1 node", "root")
        assert promised(servers) == {"default": 4, "speech": 4, "vision": 8}

    live(story)


def test_one_promise_is_changed_and_removed_without_the_others() -> None:
    async def story(servers: Servers) -> None:
        await servers.commands.promise("vision", "1 nodes + 3 GPUs", "root")
        assert promised(servers) == {"default": 9, "vision": 7}
        await servers.commands.promise("speech", "4 GPUs of Simulated-GPU", "root")
        await servers.commands.promise("vision", "1 nodes", "root")
        assert promised(servers) == {"default": 8, "speech": 4, "vision": 4}
        config = await servers.commands.promise("vision", None, "root")
        assert (promised(servers), config.promises) == (
            {"default": 12, "speech": 4},
            "speech: 4 GPUs of Simulated-GPU",
        )
        await servers.commands.promise("speech", None, "root")
        assert promised(servers) == {"default": 16}

    live(story)


@pytest.mark.parametrize(
    ("name", "promise", "code"),
    [
        ("vision", "5 nodes", "BadConfigurationError"),
        ("vision", "many nodes", "BadConfigurationError"),
        ("vision", "1 nodes, other: 1 nodes", "BadConfigurationError"),
        ("vision", None, "NoVirtualClusterError"),
        ("default", "1 nodes", "ReadOnlyVcError"),
        ("default", None, "ReadOnlyVcError"),
    ],
)
def test_a_promise_that_is_refused_changes_nothing(name: str, promise: str | None, code: str) -> None:
    async def story(servers: Servers) -> None:
        with pytest.raises(Refused) as refused:
            await servers.commands.promise(name, promise, "root")
        assert refused.value.code == code
        assert promised(servers) == {"default": 16}
        assert await servers.settings.setting(CLUSTER) is None

    live(story)


@pytest.mark.parametrize("name", ["a\0b", "a/b", "größe", "n" * 65])
def test_the_name_of_a_virtual_cluster_fits_into_a_url(name: str) -> None:
    async def story(servers: Servers) -> None:
        whole = HIVED.replace("  vision:", f"  {json.dumps(name)}:")
        for promise in ({"promises": f"{name}: 1 node", "hived": None}, {"promises": None, "hived": whole}):
            with pytest.raises(Refused, match="cannot be the name of a virtual cluster") as refused:
                await servers.commands.configure(**promise, version=None, by="root")
            assert refused.value.code == "BadConfigurationError"
        assert await servers.settings.setting(CLUSTER) is None

    live(story)


def test_a_virtual_cluster_that_jobs_use_is_not_removed() -> None:
    async def story(servers: Servers) -> None:
        await servers.commands.promise("vision", "1 nodes", "root")
        await servers.submit("train", vc="vision")
        with pytest.raises(Refused, match="ann~train") as refused:
            await servers.commands.promise("vision", None, "root")
        assert refused.value.code == "RemoveRunningVcError"
        await servers.commands.stop("ann", "train", "ann")
        await servers.in_phase("train", "stopped")
        await servers.commands.promise("vision", None, "root")
        assert promised(servers) == {"default": 16}

    live(story)


def test_a_job_that_loses_its_guarantee_runs_on_and_is_named() -> None:
    async def story(servers: Servers) -> None:
        await servers.commands.promise("vision", "4 nodes", "root")
        submitted = await servers.submit("train", vc="vision", gpus=4, instances=3)
        await servers.in_phase("train", "running")
        where = servers.where(submitted.job)
        config = await servers.commands.promise("vision", "1 nodes", "root")
        assert config.demoted == ("ann~train",)
        await servers.in_phase("train", "running")
        assert servers.where(submitted.job) == where

    live(story)


def test_an_old_version_of_the_configuration_is_not_overwritten() -> None:
    async def story(servers: Servers) -> None:
        await servers.commands.configure(promises="vision: 1 nodes", hived=None, version=0, by="root")
        with pytest.raises(Refused) as refused:
            await servers.commands.configure(promises="speech: 1 nodes", hived=None, version=0, by="root")
        assert refused.value.code == "ConflictSettingError"
        assert promised(servers) == {"default": 12, "vision": 4}

    live(story)


def test_a_promise_survives_a_node_that_is_away() -> None:
    async def story(servers: Servers) -> None:
        await servers.commands.configure(promises="vision: 3 nodes", hived=None, version=None, by="root")
        gone = servers.cluster._nodes.pop("node-03")
        also = servers.cluster._nodes.pop("node-04")
        await servers.until(lambda: as_answer(healthy(servers)["vision"] < 12))
        assert promised(servers) == {"default": 4, "vision": 12}
        assert healthy(servers)["vision"] == 8
        (problem,) = (await servers.commands.cluster_config()).problems
        assert "node-03, node-04" in problem
        views = {view.name: view.is_healthy for view in await servers.commands.nodes()}
        assert views == {"node-01": True, "node-02": True, "node-03": False, "node-04": False}
        await servers.restart()
        await servers.until(lambda: as_answer(servers.commands.leader is not None))
        assert promised(servers) == {"default": 4, "vision": 12}
        await servers.commands.forget_node("node-04", "root")
        await servers.commands.forget_node("node-03", "root")
        (problem,) = (await servers.commands.cluster_config()).problems
        assert "vision wants 3 nodes" in problem
        assert promised(servers) == {"default": 8, "vision": 0}
        # A job may wait for what was promised, but is not refused for it.
        await servers.submit("train", vc="vision", gpus=4, instances=3)
        servers.cluster._nodes |= {"node-03": gone, "node-04": also}
        await servers.in_phase("train", "running")
        assert promised(servers) == {"default": 4, "vision": 12}

    live(story)


def test_a_configuration_in_the_format_of_hived_is_used_unchanged() -> None:
    async def story(servers: Servers) -> None:
        config = await servers.commands.configure(promises=None, hived=HIVED, version=None, by="root")
        assert promised(servers) == {"default": 4, "vision": 4}
        assert config.promises is None
        message = " ".join(config.problems)
        assert "node-03, node-04" in message
        assert "node-09" in message
        submitted = await servers.submit("pinned", gpus=4, vc="vision", extras=promise(pinnedCellId="mine"))
        await servers.in_phase("pinned", "running")
        assert servers.where(submitted.job) == {("node-01", (0, 1, 2, 3))}
        config = await servers.commands.promise("speech", "2 GPUs of K80", "root")
        assert promised(servers) == {"default": 4, "speech": 2, "vision": 4}
        numbers = re.findall(r"(?:Number|isNodeLevel): (.*)", config.hived)
        assert set(numbers) == {"1", "2", "4", "true"}
        await servers.commands.promise("vision", "1 GPU", "root")
        assert promised(servers) == {"default": 4, "speech": 2, "vision": 5}
        with pytest.raises(Refused):
            await servers.commands.promise("speech", "2 nodes", "root")
        await servers.commands.promise("speech", None, "root")
        assert promised(servers) == {"default": 4, "vision": 5}

    live(story)


def promise(**about: str) -> dict[str, object]:
    return {"hivedScheduler": {"taskRoles": {"worker": about}}}


def test_a_job_that_asks_for_missing_hardware_is_refused_with_the_place_in_its_file() -> None:
    async def story(servers: Servers) -> None:
        await servers.commands.configure(promises=None, hived=HIVED, version=None, by="root")
        for about, vc, message in (
            ({"skuType": "K8O"}, "default", "the cluster has no SKU type"),
            ({"skuType": "K80"}, "empty", "virtual cluster 'empty' was promised no K80"),
            ({"pinnedCellId": "mine"}, "default", "has no pinned cell 'mine'"),
        ):
            if vc == "empty":
                text = HIVED + "  empty: {virtualCells: []}\n"
                await servers.commands.configure(promises=None, hived=text, version=None, by="root")
            with pytest.raises(InvalidProtocol, match=message) as refused:
                await servers.submit("train", vc=vc, extras=promise(**about))
            (fault,) = refused.value.faults
            assert fault.path == f"extras.hivedScheduler.taskRoles.worker.{next(iter(about))}"
        oppo = {"hivedScheduler": {"jobPriorityClass": "oppo", "taskRoles": {"worker": {"skuType": "K80"}}}}
        await servers.submit("guest", vc="empty", extras=oppo)
        await servers.in_phase("guest", "running")

    live(story)


def test_a_job_needs_a_virtual_cluster_that_exists_and_is_granted() -> None:
    async def story(servers: Servers) -> None:
        await servers.commands.promise("vision", "1 nodes", "root")
        bob = Submitter("bob", frozenset({"default"}))
        for by, vc, code in (
            (bob, "vision", "ForbiddenUserError"),
            (bob, "nowhere", "NoVirtualClusterError"),
            ("ann", "nowhere", "NoVirtualClusterError"),
        ):
            with pytest.raises(Refused) as refused:
                await servers.submit("train", by, vc=vc)
            assert refused.value.code == code

    live(story)


def test_a_server_that_does_not_lead_knows_the_virtual_clusters_and_the_url_of_the_leader() -> None:
    async def story(servers: Servers) -> None:
        other = (await servers.start("b")).commands
        await servers.commands.promise("vision", "1 nodes", "root")
        with pytest.raises(NotLeading) as message:
            await other.nodes()
        assert message.value.url == "http://a1"
        with pytest.raises(Refused, match="no virtual cluster 'nowhere'"):
            await other.submit(Submitter("ann"), job_in("nowhere"))
        await other.submit(Submitter("ann"), job_in("vision"))
        await servers.in_phase("train", "running")

    live(story)


def job_in(vc: str) -> bytes:
    from tests.unit.orchestrator.servers import job

    return job("train", vc=vc)


def test_inspect_and_snapshot_show_the_state_of_the_scheduler() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("train", gpus=4)
        await servers.in_phase("train", "running")
        inspected = await servers.commands.inspect()
        assert set(inspected) == {"physicalCluster", "virtualClusters", "affinityGroups"}
        assert len(inspected["affinityGroups"]) == 1
        assert await servers.commands.scheduler_snapshot()
        (view,) = await servers.commands.virtual_clusters()
        assert (view.name, view.used.gpus, view.running) == ("default", 4, 1)

    live(story, FOUR)


async def depose(servers: Servers) -> None:
    """Let another server take the lease over without the notice of the one that leads."""
    taken = sa.update(lease).values(epoch=lease.c.epoch + 1, holder="b/9", url="http://b9")
    await servers.database.write(lambda connection: connection.execute(taken))


def test_a_deposed_leader_writes_no_settings_and_names_the_new_leader() -> None:
    async def story(servers: Servers) -> None:
        commands, settings = servers.commands, servers.settings
        await commands.configure(promises="vision: 1 nodes", hived=None, version=0, by="root")
        del servers.cluster._nodes["node-04"]
        await servers.until(lambda: as_answer(len(servers.leader.nodes) == 3))
        before = await settings.setting(CLUSTER), await settings.setting(DRAINS), await settings.node_notes()
        await depose(servers)
        drain = NodeChange(is_drained=True, reason="new fans", deadline_s=60)
        for refused in (
            commands.promise("vision", "2 nodes", "root"),
            commands.configure(promises="speech: 1 nodes", hived=None, version=None, by="root"),
            commands.change_node("node-01", drain, "root"),
            commands.forget_node("node-04", "root"),
        ):
            with pytest.raises(NotLeading) as error:
                await refused
            assert error.value.url == "http://b9"
        after = await settings.setting(CLUSTER), await settings.setting(DRAINS), await settings.node_notes()
        assert after == before

    live(story)


def test_a_deposed_leader_saves_no_placement_hints() -> None:
    async def story(servers: Servers) -> None:
        leader = servers.leader
        await depose(servers)
        leader.active.placement_hints = {"gang": ("hint",)}
        with pytest.raises(LeaseLost):
            await save_hints(leader)
        assert await servers.settings.setting(PLACEMENT_HINTS) is None

    live(story)
