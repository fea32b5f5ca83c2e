"""A new configuration never makes a device that is in use look free, whatever it calls the device."""

from __future__ import annotations

import pytest

from openpai.scheduler.config.model import HivedConfig
from openpai.scheduler.config.planning import plan
from openpai.scheduler.config.promises import read_promises
from openpai.scheduler.model import Ask, Gang, Node, Place, Preempt
from openpai.scheduler.queue.scheduler import HivedScheduler

NODES = [Node(f"gpu-{number}", 64, 65_536, 8) for number in range(2)]


def config(model: str) -> HivedConfig:
    return plan([(node, model) for node in NODES], read_promises("vision: 1 node, default: rest"))


def gang(name: str, vc: str, priority: int = 10) -> Gang:
    return Gang(name, (Ask(1, 64, 8),), vc, priority)


@pytest.mark.parametrize("model", ["V100", "A100"])
def test_devices_in_use_are_not_given_again_though_their_type_was_renamed(model: str) -> None:
    scheduler = HivedScheduler()
    for node in NODES:
        scheduler.set_node(node)
    scheduler.reconfigure(config("V100"))
    for one in (gang("a", "vision"), gang("b", "default", -1)):
        scheduler.add(one)
        (placed,) = scheduler.decide(1_000, 10)
        scheduler.commit(placed.gang)
    assert scheduler.reconfigure(config(model)).demoted == ()
    scheduler.add(gang("c", "default"))
    (decision,) = scheduler.decide(2_000, 10)
    assert isinstance(decision, Preempt)
    assert decision.victims == ("b",)
    scheduler.release("b")
    (placed,) = scheduler.decide(3_000, 10)
    assert isinstance(placed, Place)
    scheduler.release("a")
    scheduler.release("c")
    assert scheduler.inspect()["affinityGroups"] == []
