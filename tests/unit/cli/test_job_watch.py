"""What the live view draws of a moment in a job's life."""

from __future__ import annotations

import io
from collections import deque

import pytest
from rich.console import Console

from openpai.cli.job_watch import TASKS_LIVE, WatchState, _changes, _view, _written
from openpai.cli.log_tail import _newest
from openpai.client.model import JobDetail, Wait


def job(state: str, tasks: int) -> JobDetail:
    done = [{"taskIndex": index, "taskState": "SUCCEEDED" if index else state} for index in range(tasks)]
    status = {"username": "ann", "state": state, "submissionTime": 1000, "launchedTime": 2000}
    return JobDetail.read({"name": "j" * 40, "jobStatus": status, "taskRoles": {"[w]": {"taskStatuses": done}}})


def drawn(state: WatchState, *log: str) -> str:
    screen = io.StringIO()
    Console(file=screen, width=80, force_terminal=True, color_system=None).print(_view(state, deque(log), 65_000))
    return screen.getvalue()


@pytest.mark.parametrize("tasks", [1, TASKS_LIVE, TASKS_LIVE + 1, 5000])
def test_it_fits_a_terminal_however_many_tasks_there_are(tasks):
    lines = drawn(WatchState(job("RUNNING", tasks), (), [], "[w]-0"), "x" * 300).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= TASKS_LIVE + 6
    text = "".join(lines).replace(" ", "")
    assert f"{tasks - 1}/{tasks}tasksdone" in text
    assert "[w]" in text


def test_a_waiting_job_says_why():
    wait = Wait.read({"code": "NO_ROOM", "message": "needs [8] GPUs", "unblock": "a free node", "position": 3})
    shown = drawn(WatchState(job("WAITING", 1), (wait,), [], ""))
    for expected in ("needs [8] GPUs", "a free node", "position in the queue: 3"):
        assert expected in shown


def test_a_server_that_is_away_is_reported():
    assert "does not answer" in drawn(WatchState(job("RUNNING", 1), (), [], "", is_away=True))


def test_a_log_line_is_shown_as_a_terminal_would_show_it():
    shown = drawn(WatchState(job("RUNNING", 1), (), [], "w-0"), "10%\r20%\r\x1b[31m30%\x1b[0m [done]")
    assert "30% [done]" in shown
    assert "10%" not in shown


def test_a_line_of_a_file_does_not_overwrite_the_name_of_its_task():
    assert list(_written(WatchState(job("RUNNING", 1), (), [], "w-0"), ["10%\r\x1b[31m20%", "a"])) == [
        "w-0 | 20%\n",
        "w-0 | a\n",
    ]


def test_a_progress_bar_and_the_number_of_the_attempt_are_shown():
    shown = drawn(WatchState(job("RUNNING", 1), (), [], "w-0", unfinished=" 40%|####"), "epoch 1")
    assert "40%|####" in shown
    assert "attempt" not in shown
    status = {"username": "ann", "state": "RUNNING", "attemptId": 2, "retries": 2}
    again = JobDetail.read({"name": "j", "jobStatus": status, "taskRoles": {}})
    assert "attempt 3 (2 retried)" in drawn(WatchState(again, (), [], ""))


def test_plain_lines_show_retries():
    def looked(attempt: int, task_attempt: int, *restarts: dict[str, object]) -> WatchState:
        status = {"username": "ann", "state": "RUNNING", "attemptId": attempt}
        tasks = [{"taskIndex": 0, "taskState": "RUNNING", "attemptId": task_attempt}]
        read = {"name": "j", "jobStatus": status, "taskRoles": {"w": {"taskStatuses": tasks}}, "restarts": restarts}
        return WatchState(JobDetail.read(read), (), [], "")

    message = [list(_changes(looked(0, 0), now)) for now in (looked(0, 0), looked(0, 1), looked(1, 0))]
    assert message[0] == []
    assert message[1] == ["w-0 [yellow]is retried[/]: attempt 2 of the task"]
    assert "[yellow]is retried[/]: attempt 2 begins" in message[2][0]
    by_hand = looked(1, 0, {"attemptId": 1, "time": 5, "message": "ann restarted the job: [why]"})
    (line,) = list(_changes(looked(0, 0), by_hand))[:1]
    assert line == "[bold]j[/]: [yellow]ann restarted the job: \\[why][/]: attempt 2 begins"


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["10%\r", "20%"], "20%"),
        (["10%\r20%\r"], "20%\r"),
        (["10%", "\r20", "%"], "20%"),
        (["a\n", "10%"], "10%"),
        (["10%\r20%\n"], ""),
    ],
)
def test_the_newest_state_of_a_bar_is_kept_and_no_more(pieces, shown):
    rest = ""
    for piece in pieces:
        rest = _newest((rest + piece).split("\n")[-1])
    assert rest == shown
