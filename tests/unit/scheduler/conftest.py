"""Small clusters in HiveD's format, and a short way to ask for things."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from openpai.scheduler.cells.model import Bind, Decision, GangRequest, Preempt
from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Node
from openpai.scheduler.queue.scheduler import HivedScheduler
from tests.scheduling.history import core_of
from tests.scheduling.invariants import audit

TYPES = {
    "SWITCH": {"childCellType": "GPU", "childCellNumber": 2},
    "NODE": {"childCellType": "SWITCH", "childCellNumber": 2, "isNodeLevel": True},
    "RACK": {"childCellType": "NODE", "childCellNumber": 2},
}

Promises = dict[str, dict[str, int]]


def racks_text(racks: int, promises: Promises, loose: int = 0, pins: dict[str, str] | None = None) -> str:
    """Return a cluster of racks (two nodes of two switches of two GPUs each) and loose nodes.

    `promises` says by virtual cluster how many cells of a type it has; `pins` names nodes and their owners.
    """
    owners = pins or {}

    def node(name: str) -> dict[str, Any]:
        return {"cellAddress": name, **({"pinnedCellId": f"pin-{name}"} if name in owners else {})}

    cells: list[dict[str, Any]] = [
        {"cellType": "RACK", "cellChildren": [node(f"r{rack}n0"), node(f"r{rack}n1")]} for rack in range(racks)
    ]
    cells += [{"cellType": "NODE", "cellAddress": f"loose{number}"} for number in range(loose)]
    clusters = {
        name: {
            "virtualCells": [{"cellType": kind, "cellNumber": number} for kind, number in cells_.items()],
            "pinnedCells": [{"pinnedCellId": f"pin-{at}"} for at, owner in owners.items() if owner == name],
        }
        for name, cells_ in promises.items()
    }
    cluster = {"cellTypes": TYPES, "physicalCells": cells}
    return json.dumps({"physicalCluster": cluster, "virtualClusters": clusters})


class Driver:
    """Asks a scheduler in few words, and looks after every step that its books are right."""

    def __init__(self, text: str) -> None:
        self.core = core_of(text)

    def ask(self, gang: str, virtual_cluster: str, *sizes: int, **commands: Any) -> Decision:
        """Ask for a decision on a gang with members of these sizes."""
        members = tuple((1, size) for size in sizes)
        return self.core.schedule(GangRequest(gang, virtual_cluster, members, **commands))

    def run(self, gang: str, virtual_cluster: str, *sizes: int, at_ms: int | None = None, **commands: Any) -> Bind:
        """Let a gang run, which must be possible without a preemption."""
        decision = self.ask(gang, virtual_cluster, *sizes, **commands)
        assert isinstance(decision, Bind), decision
        self.core.commit(gang, at_ms)
        self.look()
        return decision

    def threaten(self, gang: str, virtual_cluster: str, *sizes: int, **commands: Any) -> Preempt:
        """Commit to a decision that must be a preemption."""
        decision = self.ask(gang, virtual_cluster, *sizes, **commands)
        assert isinstance(decision, Preempt), decision
        self.core.commit(gang)
        self.look()
        return decision

    def end(self, gang: str) -> None:
        """Let a gang end."""
        self.core.release(gang)
        self.look()

    def look(self) -> None:
        """Fail if the books are wrong."""
        assert audit(self.core.cluster) == []


@pytest.fixture
def racks() -> Callable[..., Driver]:
    """Return a maker of drivers of clusters of racks."""

    def make(number: int, promises: Promises, **rest: Any) -> Driver:
        return Driver(racks_text(number, promises, **rest))

    return make


@pytest.fixture
def text_of_racks() -> Callable[..., str]:
    """Return a maker of configurations of clusters of racks."""
    return racks_text


@pytest.fixture
def scheduler(text_of_racks: Callable[..., str]) -> HivedScheduler:
    """Return a scheduler of one virtual cluster `a` with two nodes of four GPUs, and `b` with one."""
    made = HivedScheduler(read_config(text_of_racks(2, {"a": {"RACK": 1}, "b": {"RACK.NODE": 1}})))
    for name in made.core.cluster.node_cells:
        made.set_node(Node(name, 16, 32768, 4))
    return made
