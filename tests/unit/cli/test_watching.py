"""What the live view draws of a moment in a job's life."""

from __future__ import annotations

import io
from collections import deque

import pytest
from rich.console import Console

from openpai.cli.watching import TASKS_LIVE, Glance, _view
from openpai.client.model import JobDetail, Wait


def job(state: str, tasks: int) -> JobDetail:
    done = [{"taskIndex": index, "taskState": "SUCCEEDED" if index else state} for index in range(tasks)]
    status = {"username": "ann", "state": state, "submissionTime": 1000, "launchedTime": 2000}
    return JobDetail.read({"name": "j" * 40, "jobStatus": status, "taskRoles": {"[w]": {"taskStatuses": done}}})


def drawn(glance: Glance, *log: str) -> str:
    screen = io.StringIO()
    Console(file=screen, width=80, force_terminal=True, color_system=None).print(_view(glance, deque(log), 65_000))
    return screen.getvalue()


@pytest.mark.parametrize("tasks", [1, TASKS_LIVE, TASKS_LIVE + 1, 5000])
def test_it_fits_a_terminal_however_many_tasks_there_are(tasks):
    lines = drawn(Glance(job("RUNNING", tasks), (), [], "[w]-0"), "x" * 300).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= TASKS_LIVE + 6
    text = "".join(lines).replace(" ", "")
    assert f"{tasks - 1}/{tasks}tasksdone" in text
    assert "[w]" in text


def test_a_waiting_job_says_why():
    wait = Wait.read({"code": "NO_ROOM", "told": "needs [8] GPUs", "unblock": "a free node", "position": 3})
    shown = drawn(Glance(job("WAITING", 1), (wait,), [], ""))
    for expected in ("needs [8] GPUs", "a free node", "place in the queue: 3"):
        assert expected in shown


def test_a_server_that_is_away_is_told():
    assert "does not answer" in drawn(Glance(job("RUNNING", 1), (), [], "", is_away=True))


def test_a_log_line_is_shown_as_a_terminal_would_show_it():
    shown = drawn(Glance(job("RUNNING", 1), (), [], "w-0"), "10%\r20%\r\x1b[31m30%\x1b[0m [done]")
    assert "30% [done]" in shown
    assert "10%" not in shown
