"""What tasks left, as people see it: how much it is, and which attempt left it."""

from __future__ import annotations

import io

from rich.console import Console

from openpai.cli.job_tables import kept_work
from openpai.client.model import WorkKept


def test_each_attempt_that_left_something_has_a_line_of_its_own_with_a_size_people_can_read():
    small = WorkKept(
        role="worker", index=0, job_attempt=0, attempt=1, files=1, bytes=2, is_counted=True, kept_until_ms=60_000
    )
    large = WorkKept(
        role="worker", index=0, job_attempt=1, attempt=0, files=9, bytes=3 << 20, is_counted=False, kept_until_ms=60_000
    )
    console = Console(file=io.StringIO(), width=80)
    console.print(kept_work([small, large], 0))
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert lines[0][:4] == ["TASK", "ATTEMPT", "FILES", "SIZE"]
    assert lines[1][:5] == ["worker-0", "1/2", "1", "2", "B"]
    assert lines[2][:5] == ["worker-0", "2/1", "9+", "3.0", "MiB+"]
