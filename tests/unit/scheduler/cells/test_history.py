"""A history written down gives the same answers wherever it is replayed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.scheduling.history import core_of, replay

STEPS = [
    {"op": "nodes", "nodes": {"r0n1": {"is_healthy": False}}},
    {"op": "restore", "gang": {"id": "old", "virtual_cluster": "a", "members": [[1, 2]]}, "spots": [["r0n0", [0, 1]]]},
    {"op": "schedule", "gang": {"id": "low", "virtual_cluster": "a", "members": [[1, 2]]}},
    {"op": "commit", "gang": "low", "at_ms": 5},
    {"op": "checkpoint", "gang": "low", "at_ms": 7},
    {"op": "schedule", "gang": {"id": "more", "virtual_cluster": "a", "members": [[1, 1]]}},
    {"op": "schedule", "gang": {"id": "high", "virtual_cluster": "a", "members": [[1, 2]], "priority": 9}, "now_ms": 9},
    {"op": "commit", "gang": "high"},
    {"op": "cancel", "gang": "high"},
    {"op": "release", "gang": "old", "members": [0]},
    {"op": "schedule", "gang": {"id": "wrong", "virtual_cluster": "b", "members": [[1, 1]]}},
    {"op": "dance"},
]


def test_steps_are_answered_in_plain_data_and_the_same_every_time(text_of_racks: Callable[..., str]) -> None:
    text = text_of_racks(1, {"a": {"RACK.NODE": 1}})
    steps = [*STEPS, {"op": "reconfigure", "config": text}, {"op": "snapshot"}]
    answers = list(replay(core_of(text), steps))
    assert [answer["answer"] for answer in answers] == [
        "done", "done", "bind", "done", "done", "wait", "preempt", "done", "done", "done", "refused", "refused",
        "done", "done",
    ]  # fmt: skip
    assert answers[1]["is_guaranteed"] is True
    assert answers[2]["spots"] == [["r0n0", [2, 3]]]
    assert answers[5]["code"] == "QUOTA_USED"
    assert answers[6]["victims"] == ["low"]
    assert "no virtual cluster 'b'" in answers[10]["message"]
    assert "no step 'dance'" in answers[11]["message"]
    assert answers[12]["kept"] == ("low",)
    plain = json.loads(json.dumps(answers))
    assert json.loads(json.dumps(list(replay(core_of(text), steps)))) == plain


@pytest.mark.parametrize(
    "step",
    [
        {}, {"op": None}, {"op": ["schedule"]}, [], {"op": "schedule"}, {"op": "schedule", "gang": {"id": "g"}},
        {"op": "schedule", "gang": {"id": "g", "virtual_cluster": "a", "members": [[1]]}},
        {"op": "schedule", "gang": {"id": "g", "virtual_cluster": "a", "members": [["1", 2]]}},
        {"op": "schedule", "gang": {"id": 5, "virtual_cluster": "a", "members": [[1, 2]]}},
        {"op": "schedule", "gang": {"id": "g", "virtual_cluster": [], "members": [[1, 2]]}},
        {"op": "commit"}, {"op": "commit", "gang": []}, {"op": "release"},
        {"op": "release", "gang": "g", "members": 3},
        {"op": "release", "gang": "g", "members": ["0"]}, {"op": "cancel", "gang": {}},
        {"op": "checkpoint", "gang": "g"},
        {"op": "nodes"}, {"op": "nodes", "nodes": ["r0n0"]}, {"op": "nodes", "nodes": {"r0n0": None}},
        {"op": "nodes", "nodes": {"r0n0": {"bad_devices": ["x"]}}}, {"op": "restore", "gang": {}, "spots": []},
        {"op": "restore", "gang": {"id": "g", "virtual_cluster": "a", "members": [[1, 2]]}, "spots": [["r0n0"]]},
        {"op": "reconfigure"}, {"op": "reconfigure", "config": 7},
    ],
)  # fmt: skip
def test_a_step_that_cannot_be_read_is_refused_and_changes_nothing(racks: Callable[..., Any], step: Any) -> None:
    driver = racks(1, {"a": {"RACK": 1}})
    before = driver.core.snapshot()
    (answer,) = replay(driver.core, [step])
    assert answer["answer"] == "refused"
    assert driver.core.snapshot() == before
