"""A cluster of pods for the extender, without Kubernetes: pods are created, asked about, bound and deleted by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from openpai.extender.annotations import BIND_INFO, ISOLATION
from openpai.extender.objects import Pod
from openpai.extender.scheduling import Blocked, Decided, Extender, Waiting
from openpai.scheduler.cells.inspection import physical_cells
from tests.scheduling.history import core_of
from tests.scheduling.invariants import audit

CONFIG = """
physicalCluster:
  cellTypes:
    SWITCH: {childCellType: GPU, childCellNumber: 2}
    NODE: {childCellType: SWITCH, childCellNumber: 2, isNodeLevel: true}
    RACK: {childCellType: NODE, childCellNumber: 4}
  physicalCells:
  - cellType: RACK
    cellChildren: [{cellAddress: n0}, {cellAddress: n1}, {cellAddress: n2}, {cellAddress: n3}]
virtualClusters:
  a: {virtualCells: [{cellType: RACK.NODE, cellNumber: 2}]}
  b: {virtualCells: [{cellType: RACK.NODE, cellNumber: 2}]}
"""
NODES = ("n0", "n1", "n2", "n3")


class Pods:
    """An extender and the pods of its cluster."""

    def __init__(self, config: str = CONFIG, nodes: tuple[str, ...] = NODES) -> None:
        self.config = config
        self.nodes = dict.fromkeys(nodes, True)
        self.live: dict[str, Pod] = {}
        self.extender = self._started()

    def _started(self) -> Extender:
        extender = Extender(core_of(self.config))
        extender.see_nodes(self.nodes)
        return extender

    def restart(self) -> None:
        self.extender = self._started()
        self.extender.recover(self.live.values())
        self.check()

    def create(self, name: str, vc: str = "a", leaves: int = 4, **spec: Any) -> str:
        text = json.dumps({"virtualCluster": vc, "leafCellNumber": leaves, **spec})
        pod = Pod(name, "default", name, spec=text, priority=spec.get("priority", 0))
        self.live[name] = pod
        self.extender.see_pod(pod)
        return name

    def gang(self, group: str, pods: int, vc: str = "a", leaves: int = 4, **spec: Any) -> list[str]:
        members = {"name": group, "members": [{"podNumber": pods, "leafCellNumber": leaves}]}
        return [self.create(f"{group}-{i}", vc, leaves, affinityGroup=members, **spec) for i in range(pods)]

    def delete(self, *names: str) -> None:
        for name in names:
            del self.live[name]
            self.extender.lose_pod(name)
            self.check()

    def ask(self, name: str) -> Decided | Blocked | Waiting:
        answer = self.extender.filter(name, NODES)
        self.check()
        return answer

    def preempt(self, name: str) -> Blocked | Waiting:
        answer = self.extender.preempt(name, NODES)
        self.check()
        return answer

    def run(self, *names: str) -> list[str]:
        """Have pods decided and bound; return `node:devices` of each."""
        return [self._run(name) for name in names]

    def _run(self, name: str) -> str:
        answer = self.ask(name)
        assert isinstance(answer, Decided), answer
        binding = self.extender.binding(name, answer.node)
        assert binding is not None
        annotations = binding["metadata"]["annotations"]
        self.live[name] = replace(self.live[name], node=answer.node, bind_info=annotations[BIND_INFO])
        self.extender.see_pod(self.live[name])
        self.check()
        return f"{answer.node}:{annotations[ISOLATION]}"

    def where(self, name: str) -> str:
        record = self.extender.pods[name]
        assert record.member is not None
        spot = self.extender.groups[record.group].spots[record.member]
        return f"{spot.node}:{','.join(map(str, spot.devices))}"

    def used(self) -> int:
        """Return how many devices are in use or reserved."""
        return sum(leaf["cellState"] != "Free" for leaf in leaves(physical_cells(self.extender.core.cluster)))

    def check(self) -> None:
        """Check that the cells are sound, and that no two pods have the same device."""
        assert audit(self.extender.core.cluster) == []
        seen: set[tuple[str, int]] = set()
        for group in self.extender.groups.values():
            for member in group.pods:
                devices = {(group.spots[member].node, device) for device in group.spots[member].devices}
                assert not devices & seen
                seen |= devices


def leaves(cells: Any) -> Any:
    for cell in cells:
        if "cellChildren" in cell:
            yield from leaves(cell["cellChildren"])
        else:
            yield cell
