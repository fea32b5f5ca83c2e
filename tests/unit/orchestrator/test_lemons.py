"""A node that fails the jobs of several users is drained with its reason, and comes back with a score of 0."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from openpai.backends.simulated.backend import virtual_nodes
from openpai.lifecycle.lemons import Strike
from openpai.lifecycle.model import AttemptKey
from openpai.orchestrator.lemons import Lemons
from openpai.ports.cluster_settings import LEMON_POLICY, NodeNote, Setting
from openpai.ports.logs import LogChunk
from openpai.ports.platform import NodeChange, NodeView
from openpai.ports.usage import AuditFilter
from tests.simulation.server import NoLogs
from tests.unit.orchestrator.servers import Servers, live

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python, GPU has fallen off the bus."
DAY_MS = 86_400_000
ONE = virtual_nodes(1, 4, cpus=16)


class Logs(NoLogs):
    """Logs in which every task reports a broken GPU."""

    async def read(self, key: AttemptKey, stream: str, offset: int, limit: int) -> LogChunk:
        return LogChunk(stream, 0, XID.encode() + b"\n", len(XID) + 1)


async def node(servers: Servers) -> NodeView:
    (found,) = await servers.commands.nodes()
    return found


async def fail(servers: Servers, user: str, name: str) -> None:
    await servers.submit(name, user, gpus=2, command="exit 1")

    async def has_failed() -> bool:
        return any(each.job for each in servers.leader.lemons.strikes if each.user == user)

    await servers.until(has_failed)
    await servers.commands.stop(user, name, user)
    # Two hours later.
    lemons = servers.leader.lemons
    lemons.strikes = [replace(each, at_ms=each.at_ms - DAY_MS // 12) for each in lemons.strikes]


def test_three_users_drain_a_node_and_an_administrator_puts_it_back() -> None:
    async def story(servers: Servers) -> None:
        servers.leader.logs = Logs()
        for user in ("ann", "bob"):
            await fail(servers, user, "train")
        assert not (await node(servers)).is_drained
        await fail(servers, "eve", "train")
        found = await node(servers)
        assert found.is_drained
        assert found.drained_because.startswith("lemon: jobs of 3 users failed for its hardware: xid_hardware (3)")
        (row,) = await servers.usage.audit(AuditFilter(actions=("node.change",), target=found.name))
        assert (row.entry.actor, row.entry.via, len(row.entry.detail["jobs"])) == ("platform", "lemon score", 3)
        await servers.restart()
        assert (await node(servers)).lemon_users == 3
        back = await servers.commands.change_node(found.name, NodeChange(is_drained=False), "root")
        assert (back.is_drained, back.lemon_score) == (False, 0.0)
        await asyncio.sleep(60)
        assert not (await node(servers)).is_drained

    live(story, ONE)


def test_the_threshold_is_set_while_the_platform_runs_and_0_switches_it_off() -> None:
    async def story(servers: Servers) -> None:
        async def set_threshold(score: float) -> None:
            await servers.settings.set_setting(LEMON_POLICY, {"threshold": score}, by="root", at_ms=0)
            await servers.commands.limits_changed()
            await asyncio.sleep(10)

        await set_threshold(0)
        now_ms = servers.clock.now_ms()
        for day, user in enumerate(("ann", "bob", "eve", "kim")):
            strike = Strike(ONE[0].name, user, f"{user}-job", "xid_hardware", now_ms - day * DAY_MS, (0, 1))
            servers.leader.lemons.keep(strike, now_ms)
        servers.leader.nudges.work.set()
        await asyncio.sleep(10)
        assert not (await node(servers)).is_drained
        await set_threshold(5)
        assert not (await node(servers)).is_drained
        await set_threshold(3)
        assert (await node(servers)).is_drained

    live(story, ONE)


def test_only_nodes_drained_for_their_score_count_for_the_share_that_may_be() -> None:
    note, now_ms = NodeNote("n0", is_drained=True, reason="lemon: a lookalike"), 10 * DAY_MS
    notes = [note, *(NodeNote(f"n{at}") for at in range(1, 10))]
    lemons = Lemons()
    for node in ("n1", "n2"):
        for at, user in enumerate(("ann", "bob", "eve")):
            lemons.keep(Strike(node, user, f"{user}-{node}", "xid_hardware", now_ms - at * DAY_MS // 12), now_ms)
    # What an administrator wrote about n0 makes it no lemon.
    assert [each.node for each in lemons.found(notes, now_ms)] == ["n1"]
    again = Lemons()
    again.learn(Setting("lemons", lemons.body(), 1, 0, ""))
    drained = [replace(each, is_drained=each.is_drained or each.name == "n1") for each in notes]
    # The share is used up, also for a server that reads it from the store, until n1 is back.
    assert again.found(drained, now_ms) == []
    again.forget("n1")
    assert [each.node for each in again.found(notes, now_ms)] == ["n2"]


def test_nodes_that_an_earlier_version_drained_count_for_the_share_that_may_be() -> None:
    now_ms = 10 * DAY_MS
    mine = NodeNote("n1", is_drained=True, reason="lemon: failed 3 users", changed_by="platform")
    notes = [NodeNote("n0", is_drained=True, changed_by="ann"), mine, *(NodeNote(f"n{at}") for at in range(2, 10))]
    lemons = Lemons()
    for at, user in enumerate(("ann", "bob", "eve")):
        lemons.keep(Strike("n2", user, f"{user}-n2", "xid_hardware", now_ms - at * DAY_MS // 12), now_ms)
    upgraded = Lemons()
    upgraded.learn(Setting("lemons", {"strikes": lemons.body()["strikes"]}, 1, 0, ""))
    assert upgraded.found(notes, now_ms) == []
    assert upgraded.body()["drained"] == ["n1"]


@pytest.mark.parametrize(("command", "blamed"), [("exit 0", True), ("exit 1", False)], ids=["succeeded", "failed"])
def test_a_failure_of_unknown_cause_counts_if_the_job_succeeds_on_another_node(command: str, blamed: bool) -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("train", gpus=4, command=f"sleep 30; {command}")
        await servers.in_phase("train", "running")
        row = await servers.row("train")
        record = servers.leader.active.records[row.id]
        (slot,) = record.slots.values()
        lemons: Lemons = servers.leader.lemons
        lemons.suspects[row.id] = Strike("another", "ann", row.id, "", servers.clock.now_ms(), (), "default", False)
        await servers.in_phase("train", "succeeded" if blamed else "failed")
        assert [(each.node, each.is_sure) for each in lemons.strikes] == ([("another", False)] if blamed else [])
        assert lemons.suspects == {}
        assert slot.node != "another"

    live(story)


def test_failures_are_read_by_the_version_before_and_from_the_one_after() -> None:
    failure, excluded = Strike("n1", "ann", "j1", "xid", 5), Strike("n1", "ann", "j2", "", 6, rule="idle")
    lemons = Lemons(strikes=[failure, excluded])
    rows = lemons.body()["strikes"]
    # Version 0.2.0 knows no rule, and starts only if it knows each field of the failures.
    assert "rule" not in rows[0]
    later = {"strikes": [{**row, "of_a_later_version": 1} for row in rows]}
    again = Lemons()
    again.learn(Setting("lemons", later, 1, 0, ""))
    assert again.strikes == [failure, excluded]
