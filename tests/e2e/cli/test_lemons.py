"""A node that fails a job is avoided by its next attempt; the failures of one user drain no node."""

from __future__ import annotations

import json

import pytest

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python, GPU has fallen off the bus."
JOB = f"""
protocolVersion: 2
name: NAME
type: job
prerequisites: [{{type: dockerimage, name: image, uri: python}}]
taskRoles:
  worker:
    instances: 1
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 64, gpu: 0}}
    commands: ['test -e MARK && exit 0; touch MARK; echo "{XID}"; exit 1']
"""


@pytest.mark.full
def test_the_next_attempt_avoids_the_node_and_one_user_drains_none(new_pai, tmp_path):
    tmp_path.chmod(0o777)
    for number in range(3):
        mark = tmp_path / f"mark{number}"
        (tmp_path / "job.yaml").write_text(JOB.replace("NAME", f"xid{number}").replace("MARK", str(mark)))
        assert new_pai("job", "submit", str(tmp_path / "job.yaml"), "--watch").code == 0
        first = json.loads(new_pai("job", "show", f"xid{number}", "--attempt", "1", "--json").out)
        last = json.loads(new_pai("job", "show", f"xid{number}", "--json").out)
        assert first["jobStatus"]["appExitCause"]["name"] == "xid_hardware"
        assert first["jobStatus"]["appExitCause"]["excludesNode"]
        nodes = [each["taskRoles"]["worker"]["taskStatuses"][0]["containerNodeName"] for each in (first, last)]
        assert nodes[0] != nodes[1]
    found = json.loads(new_pai("node", "list", "--json").out)
    assert not any(node["drained"] for node in found)
    blamed = [node for node in found if node["lemonScore"]]
    assert blamed
    assert {node["lemonUsers"] for node in blamed} == {1}
    assert "jobs of 1 user failed for its hardware" in new_pai("node", "show", blamed[0]["name"]).out
