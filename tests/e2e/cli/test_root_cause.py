"""The task with which a failure began is named, although another one ended first."""

from __future__ import annotations

import json

STOOD_STILL = """
import threading, traceback, pathlib, time
try:
    import apex_is_missing
except ImportError:
    traceback.print_exc()
pathlib.Path(SIGN).touch()
time.sleep(600)
"""
LOST_ITS_PEER = """
import pathlib, time
while not pathlib.Path(SIGN).exists():
    time.sleep(0.05)
raise ConnectionResetError(104, "Connection reset by peer")
"""
JOB = """
protocolVersion: 2
name: two-ranks
type: job
prerequisites: [{type: dockerimage, name: image, uri: python}]
taskRoles:
  rank:
    instances: 2
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}
    commands:
    - exec python3 -u DIRECTORY/rank$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX.py
"""


def test_the_root_is_the_rank_that_raised_and_stood_still(pai, tmp_path):
    sign = repr(str(tmp_path / "sign"))
    for rank, text in enumerate((STOOD_STILL, LOST_ITS_PEER)):
        (tmp_path / f"rank{rank}.py").write_text(text.replace("SIGN", sign))
    tmp_path.chmod(0o755)
    (tmp_path / "job.yaml").write_text(JOB.replace("DIRECTORY", str(tmp_path)))
    assert pai("job", "submit", str(tmp_path / "job.yaml"), "--watch").code == 1

    shown = pai("job", "show", "two-ranks").out
    message = " ".join(shown.split())
    assert "first: task rank-0 on " in message
    assert "; rank-0 failed first; 1 task of role rank failed" in message
    assert "missing_module: caused by the program or the job file; another attempt would fail again" in message
    assert "import apex_is_missing ModuleNotFoundError: No module named 'apex_is_missing'" in message
    assert pai("job", "why", "two-ranks").out.startswith("Why: A module that the program imports is not installed")
    cause = json.loads(pai("job", "show", "two-ranks", "--json").out)["jobStatus"]["appExitCause"]
    assert (cause["name"], cause["domain"], cause["taskIndex"]) == ("missing_module", "user", 0)
    assert "import apex_is_missing" in cause["lines"]
    assert json.loads(pai("job", "why", "two-ranks", "--json").out)["cause"] == cause
    events = json.loads(pai("job", "events", "two-ranks", "--json").out)
    assert "RootCauseFound" in json.dumps(events)
