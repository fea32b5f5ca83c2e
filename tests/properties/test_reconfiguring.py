"""The laws of the HiveD core while promises change back and forth, on racks of racks and among much bad hardware.

Beside the laws of `test_hived_promise`: nobody is stopped or moved by other promises, and the answer names exactly the
gangs that lost their guarantee.
"""

from __future__ import annotations

import json
import os
from math import prod
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from openpai.protocol.errors import Refused
from openpai.scheduler.cells.model import Code, State, Wait
from openpai.scheduler.config.model import InvalidConfig
from openpai.scheduler.config.reading import read_config
from tests.properties import test_hived_promise as promise

STEPS = 40
SWEEP = int(os.environ.get("OPENPAI_HISTORIES", "334"))


def some_machines(dice: Random) -> tuple[dict[str, Any], list[list[str]]]:
    """Return a cluster of one or two chains, with up to three levels above its nodes, and the types of each chain."""
    types: dict[str, Any] = {}
    cells: list[dict[str, Any]] = []
    paths: list[list[str]] = []
    count = 0
    for chain in range(dice.choice([1, 1, 2])):
        inner = dice.choice([[3], [2], [5], [3, 1], [1, 3]])
        upper = dice.choice([[2, 2], [3, 1], [2, 1, 2], [1, 3], [3], [2, 2, 1], [5]])
        path = [dice.choice(["GPU", f"GPU-{chain}"])]
        for at, number in enumerate(inner + upper):
            types[f"C{chain}L{at}"] = {"childCellType": path[-1], "childCellNumber": number}
            path.append(f"C{chain}L{at}")
        types[path[len(inner)]]["isNodeLevel"] = True
        paths.append(path)
        row: list[dict[str, Any]] = [{"cellAddress": f"n{count + at}"} for at in range(prod(upper))]
        count += len(row)
        for number in upper:
            row = [{"cellChildren": row[at : at + number]} for at in range(0, len(row), number)]
        cells.append({**row[0], "cellType": path[-1]})
    return {"cellTypes": types, "physicalCells": cells}, paths


def some_promises(dice: Random, machines: dict[str, Any], paths: list[list[str]]) -> str:
    """Return a configuration that promises cells of these machines to three virtual clusters."""
    types = machines["cellTypes"]
    while True:
        clusters = {}
        left = {path[-1]: _devices(types, path[-1]) for path in paths}
        for name in "ABC":
            cells = []
            for _ in range(dice.randint(1, 3)):
                path = dice.choice(paths)
                at, number = dice.randint(0, len(path) - 1), dice.choice([1, 1, 2, 3])
                cells.append({"cellType": ".".join(reversed(path[at:])), "cellNumber": number})
                left[path[-1]] -= number * _devices(types, path[at])
            clusters[name] = {"virtualCells": cells}
        if min(left.values()) < 0:
            continue  # most are refused for that, and reading them to find out takes long
        text = json.dumps({"physicalCluster": machines, "virtualClusters": clusters})
        try:
            read_config(text)
        except InvalidConfig:
            continue
        return text


def _devices(types: dict[str, Any], name: str) -> int:
    """Return how many devices a cell of a type has."""
    cell = types.get(name)
    return cell["childCellNumber"] * _devices(types, cell["childCellType"]) if cell else 1


class History(promise.History):
    """A history in which promises change to others and back."""

    def __init__(self, seed: int) -> None:
        dice = Random(seed)
        machines = some_machines(dice)
        self.texts = [some_promises(dice, *machines) for _ in range(2)]
        with patch.object(promise, "some_config", lambda _: self.texts[0]):
            super().__init__(seed)

    def change_node(self) -> None:
        """Change the health of several nodes, so that much of the cluster is bad."""
        for _ in range(3):
            super().change_node()

    def mend(self) -> None:
        """Mend all nodes, and change the promises."""
        super().mend()
        self.change_promises()

    def restart(self) -> None:
        """Restart, and change the promises."""
        super().restart()
        self.change_promises()

    def change_promises(self) -> None:
        """Switch to the other promises."""
        self.text = self.texts[self.text == self.texts[0]]
        gangs = self.core.cluster.gangs
        reserved = [name for name, each in gangs.items() if each.state is State.PREEMPTING]
        self.waiting |= {name: gangs[name].request for name in reserved}
        before = self.guarantees(), {name: self.core.spots_held(name) for name in gangs if name not in reserved}
        health = self.core.cluster.unhealthy
        report = self.both("reconfigure", read_config(self.text))
        self.log.append(f"{report}")
        now, gangs = self.guarantees(), self.core.cluster.gangs
        lost = {name for name in now if before[0][name] and not now[name] and gangs[name].request.priority >= 0}
        assert lost == set(report.demoted)
        assert self.core.cluster.unhealthy == health
        assert {name: self.core.spots_held(name) for name in before[1]} == before[1]
        self.waiting, self.too_large = {**self.waiting, **self.too_large}, {}
        for name, request in list(self.waiting.items()):
            try:
                decision = self.both("schedule", request)
                if isinstance(decision, Wait) and decision.code is Code.TOO_LARGE:
                    self.too_large[name] = self.waiting.pop(name)
            except Refused:
                # Its virtual cluster has nothing of that kind any more.
                del self.waiting[name]
        self.core.roll_back()
        self.mirror.roll_back()


def play(seed: int) -> None:
    history = History(seed)
    try:
        history.run(STEPS)
    except Exception as error:
        raise AssertionError("\n".join([f"{error}", f"seed {seed}", *history.texts, *history.log])) from error


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.slow if seed % 2 else ()) for seed in range(16)])
def test_the_promise_holds_while_promises_change(seed: int) -> None:
    play(seed)


@pytest.mark.full
@pytest.mark.parametrize("first", range(16, 16 + SWEEP, 50))
def test_the_promise_holds_while_promises_change_over_many_more_histories(first: int) -> None:
    for seed in range(first, min(first + 50, 16 + SWEEP)):
        play(seed)
