"""What `why` says of a job whose tasks run on a node that does not answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from openpai.lifecycle.model import AttemptKey, ExitReport, TaskPhase
from openpai.orchestrator.waits import silent
from openpai.ports.backend import TaskSeen, TaskStep
from openpai.scheduler.model import Why

SAID = "its node n1 does not answer; if the node is off: kubectl taint node n1 ..."


def key(index: int) -> AttemptKey:
    return AttemptKey("j", 0, "worker", index, 0)


def test_why_names_each_silent_node_once_and_says_what_to_do() -> None:
    phases = [TaskPhase.RUNNING, TaskPhase.RUNNING, TaskPhase.RUNNING, TaskPhase.FAILED]
    tasks = {
        index: SimpleNamespace(is_alive=phase is TaskPhase.RUNNING, index=index) for index, phase in enumerate(phases)
    }
    found: Any = SimpleNamespace(job=SimpleNamespace(id="j", attempt=0, tasks=tasks, key=lambda task: key(task.index)))
    seen = [TaskSeen(key(index), 1, 5, None, SAID, TaskStep.NODE_SILENT) for index in (0, 1)]
    seen.append(TaskSeen(key(2), 1, 5))
    seen.append(TaskSeen(key(3), 1, 5, ExitReport(1), "another", TaskStep.NODE_SILENT))
    seen.append(TaskSeen(AttemptKey("other", 0, "worker", 0, 0), 1, 5, None, "of another job", TaskStep.NODE_SILENT))
    (wait,) = silent(found, seen)
    assert (wait.code, wait.message) == (Why.NODE_SILENT, SAID)
    assert "out of service" in wait.unblock
