"""What `SettingsStore` promises of writes under a lease, asked of SQLite and of PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from openpai.ports.cluster_settings import CLUSTER, DRAINS, FAIRNESS, LEMONS, NodeNote
from openpai.ports.store import LeaseLost
from openpai.store.cluster_settings import SqlSettingsStore
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore

Write = Callable[[SqlSettingsStore, int | None], Awaitable[object]]

WRITES: dict[str, Write] = {
    "set_setting": lambda store, epoch: store.set_setting(CLUSTER, {"new": 1}, by="root", at_ms=2, epoch=epoch),
    "learn_nodes": lambda store, epoch: store.learn_nodes((NodeNote("node-1", cpus=9), NodeNote("node-2")), epoch),
    "set_node_notes": lambda store, epoch: store.set_node_notes((NodeNote("node-1", is_drained=True),), epoch),
    "forget_nodes": lambda store, epoch: store.forget_nodes(("node-1",), epoch),
}


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_of_a_leader_without_its_lease_is_refused(database: Database, name: str) -> None:
    jobs, store = SqlJobStore(database), SqlSettingsStore(database)
    deposed = await jobs.lease("a/1", 0, 15_000)
    await store.set_setting(CLUSTER, {"old": 1}, by="root", at_ms=1, epoch=deposed)
    await store.set_node_notes((NodeNote("node-1", cpus=4),), deposed)
    # Another process of the same data directory takes the lease over at once.
    newest = await jobs.lease("a/2", 0, 15_000)
    assert (deposed, newest) == (1, 2)
    before = await store.setting(CLUSTER), await store.node_notes()
    with pytest.raises(LeaseLost):
        await WRITES[name](store, deposed)
    assert (await store.setting(CLUSTER), await store.node_notes()) == before
    await WRITES[name](store, newest)
    after = await store.setting(CLUSTER), await store.node_notes()
    assert after != before


async def test_several_settings_are_read_at_once_and_those_never_set_are_left_out(database: Database) -> None:
    store = SqlSettingsStore(database)
    for name in (CLUSTER, DRAINS, FAIRNESS):
        await store.set_setting(name, {"of": name}, by="root", at_ms=1)
    found = await store.settings(CLUSTER, LEMONS, FAIRNESS)
    assert found == {CLUSTER: await store.setting(CLUSTER), FAIRNESS: await store.setting(FAIRNESS)}
    assert found[FAIRNESS].body == {"of": FAIRNESS}
    assert await store.settings() == {}


async def test_a_note_that_did_not_change_is_made_once(database: Database) -> None:
    store = SqlSettingsStore(database)
    await store.set_node_notes((NodeNote("node-1", cpus=4), NodeNote("node-2", bad_devices=frozenset({1}))), None)
    first = await store.node_notes()
    await store.set_node_notes((NodeNote("node-1", cpus=8),), None)
    changed, same = await store.node_notes()
    assert (changed, same) == (NodeNote("node-1", cpus=8), NodeNote("node-2", bad_devices=frozenset({1})))
    assert same is first[1]
