"""The benchmark counts what it says it counts."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.scheduling.history import core_of

BENCH = Path(__file__).parents[3] / "bench" / "scheduler.py"


def load_bench() -> Any:
    spec = importlib.util.spec_from_file_location("bench_scheduler", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def submit(gang: str, owner: str, members: list[list[int]], priority: int = 0) -> str:
    return json.dumps({"op": "submit", "id": gang, "vc": owner, "priority": priority, "members": members})


def test_gangs_pods_rejections_and_preemptions_are_counted(text_of_racks: Callable[..., str]) -> None:
    core = core_of(text_of_racks(1, {"a": {"RACK": 1}}))
    stream = [
        json.dumps({"op": "header"}),
        submit("guest", "a", [[2, 4]], -1),
        json.dumps({"op": "mark", "name": "steady"}),
        submit("owner", "a", [[1, 4]]),
        submit("pair", "a", [[2, 2]]),
        submit("late", "a", [[1, 1]]),
        json.dumps({"op": "delete", "id": "guest"}),
        json.dumps({"op": "delete", "id": "owner"}),
        json.dumps({"op": "node_bad", "node": "r0n0"}),
        json.dumps({"op": "node_good", "node": "r0n0"}),
        submit("next", "a", [[4, 1]]),
    ]
    phases = load_bench().Run(core).play(stream)
    assert (phases["fill"]["gangs"], phases["fill"]["pods"]) == (1, 2)
    steady = phases["steady"]
    assert (steady["gangs"], steady["pods"]) == (4, 7)
    assert (steady["rejected"], steady["preempted"], steady["preemption_rounds"]) == (1, 1, 1)
    assert set(core.cluster.gangs) == {"pair", "next"}
