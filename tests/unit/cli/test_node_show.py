"""What `pai node show` prints of a node: its devices, its checks, its jobs and its history."""

from __future__ import annotations

import json
import re

from tests.unit.cli.test_sharing import HELD


def test_a_node_is_shown_with_its_devices_its_jobs_and_its_history(pai, platform):
    node = {
        "name": "n1", "healthy": True, "drained": True, "drainedBecause": "fans", "drainDeadline": 1,
        "gpus": {"total": 3, "used": 2}, "cpus": {"total": 8, "used": 2}, "badDevices": [2], "badBecause": "ECC",
    }  # fmt: skip
    entry = {"time": 1, "actor": "root", "detail": {"request": "PUT x", "drained": True, "reason": "fans"}}
    checks = [
        {"name": "memory errors (ECC)", "result": "failed", "message": "GPU 2: 1 memory error", "sinceTime": 1},
        {"name": "clock", "result": "passed", "message": "", "sinceTime": None, "checkedTime": 2},
    ]
    platform.on("GET", "/nodes/n1", {**node, **HELD, "checks": checks, "history": [entry]})
    out = pai("node", "show", "n1").out
    for message in (
        "fans; jobs are stopped at 1970",
        "2 of 8 in use",
        "eve~next",
        "bad: ECC",
        'drained=true reason="fans"',
        "CHECK                RESULT  SINCE             REASON",
        "clock                passed  -",
        "checked at 1970",
    ):
        assert message in out
    assert re.search(r"memory errors \(ECC\)  failed  1970-01-01 \S+  GPU 2: 1 memory error", out)
    assert max(map(len, out.splitlines())) <= 80
    platform.on("PUT", "/nodes/n1", {**node, "tasks": 2})
    message = pai("node", "drain", "n1", "--deadline", "2h")
    assert json.loads(platform.requests[-1].content) == {"drained": True, "reason": "", "deadlineSeconds": 7200}
    assert "2 tasks keep running there until 1970" in message.out
    assert pai("node", "drain", "n1", "--deadline", "soon").code == 2
