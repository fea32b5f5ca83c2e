"""What `pai admin check` says of the logs of running tasks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from openpai.app.check import _of_logs
from openpai.app.datadir import open_data_dir
from openpai.lifecycle.model import AttemptKey


def key(index: int) -> AttemptKey:
    return AttemptKey("a" * 32, 0, "worker", index, 0)


def test_only_tasks_whose_files_are_here_must_have_a_directory_of_logs(tmp_path: Path) -> None:
    data = open_data_dir(tmp_path / "data")
    silent, whole, lost = (key(index) for index in range(3))
    checking: Any = SimpleNamespace(running=lambda: [silent, whole, lost])
    # A silent task on a simulated node, or on Kubernetes, has neither.
    assert _of_logs(checking, data).state == "ok"
    for one in (whole, lost):
        (data.tasks / "process" / one.path()).mkdir(parents=True)
    (data.logs / whole.path()).mkdir()
    found = _of_logs(checking, data)
    assert found.state == "warning"
    assert found.message.startswith("1 of 2 ")
    assert lost.path() in found.message
    assert silent.path() not in found.message
    data.close()
