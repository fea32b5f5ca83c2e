"""The scheduling settings of a job, and their faults."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openpai.protocol.errors import InvalidProtocol
from openpai.protocol.placement import ANYWHERE, Placement, RolePlacement, is_private, placement_of, time_limit_ms
from openpai.protocol.reading import Read, read_job

ROLE = {"dockerImage": "i", "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 1}, "commands": ["true"]}


def read(**extras: Any) -> Read:
    document = {
        "protocolVersion": 2,
        "name": "train",
        "type": "job",
        "prerequisites": [{"type": "dockerimage", "name": "i", "uri": "busybox"}],
        "taskRoles": {"worker": ROLE, "server": ROLE | {"completion": {"minSucceededInstances": -1}}},
        "extras": extras,
    }
    return read_job(json.dumps(document))


def fault_of(**extras: Any) -> tuple[str, str]:
    with pytest.raises(InvalidProtocol) as invalid:
        read(**extras)
    (fault,) = invalid.value.faults
    return fault.path, fault.describe()


def test_a_job_without_constraints_runs_anywhere() -> None:
    assert placement_of(read().spec) == ANYWHERE
    assert placement_of(read(hivedScheduler=None).spec) == ANYWHERE


def test_constraints_are_read() -> None:
    found = read(
        hivedScheduler={
            "taskRoles": {"worker": {"skuType": "V100", "affinityGroupName": "a"}, "server": None},
            "lazyPreemptionEnable": True,
            "topology": {"cellType": "RACK", "required": True},
        }
    )
    assert found.warnings == ()
    commands = {"worker": RolePlacement("V100", None, "a"), "server": RolePlacement()}
    assert placement_of(found.spec) == Placement(commands, True, "RACK", True)


def test_time_limits_and_privacy_are_read() -> None:
    found = read(timeLimitMinutes=90, private=True)
    assert found.warnings == ()
    assert (time_limit_ms(found.spec.extras), is_private(found.spec.extras)) == (5_400_000, True)
    assert (time_limit_ms({}), is_private({})) == (None, False)


@pytest.mark.parametrize(
    ("extras", "path"),
    [
        ({"timeLimitMinutes": 0}, "extras.timeLimitMinutes"),
        ({"timeLimitMinutes": True}, "extras.timeLimitMinutes"),
        ({"timeLimitMinutes": "2h"}, "extras.timeLimitMinutes"),
        ({"private": "yes"}, "extras.private"),
        ({"hivedScheduler": {"topology": {}}}, "extras.hivedScheduler.topology.cellType"),
        ({"hivedScheduler": {"topology": {"cellType": ""}}}, "extras.hivedScheduler.topology.cellType"),
        ({"hivedScheduler": {"topology": "RACK"}}, "extras.hivedScheduler.topology"),
    ],
)
def test_a_constraint_of_the_wrong_type_is_a_fault(extras: dict[str, Any], path: str) -> None:
    assert fault_of(**extras)[0] == path


def test_an_opportunistic_job_has_no_part_in_a_pinned_cell() -> None:
    hived = {"jobPriorityClass": "oppo", "taskRoles": {"worker": {"pinnedCellId": "rack-7"}}}
    path, message = fault_of(hivedScheduler=hived)
    assert path == "extras.hivedScheduler.taskRoles.worker.pinnedCellId"
    assert "opportunistic" in message
