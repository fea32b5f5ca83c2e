"""What a server prints for the user who started it."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path

import pytest
import structlog

from openpai.app.console import Console, set_up_logging
from openpai.app.settings import BackendName, Settings


def describe(backend: BackendName, capsys: pytest.CaptureFixture[str]) -> str:
    settings = Settings(Path("/data"), backend=backend)
    Console(settings).welcome("1.0", "http://127.0.0.1:1", None, "admin", is_open=False)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("user", "whose"), [(0, "which are root's: give accounts"), (1000, "own rights: give accounts")]
)
def test_the_rights_of_jobs_are_printed(
    user: int, whose: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    assert whose in describe("process", capsys)
    assert "own rights" not in describe("docker", capsys)


def test_the_user_of_tasks_is_printed_instead(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert "or run tasks as other users with --task-uids" in describe("process", capsys)
    Console(Settings(Path("/data"), task_user="pai-[x]")).welcome("1", "http://x", None, "admin", is_open=False)
    output = capsys.readouterr().out
    assert "with the rights of the user pai-[x]: give accounts only to people you trust" in output
    assert "root" not in output


class Screen(io.StringIO):
    """A standard error that may be a terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_traceback_in_the_log_shows_no_values(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(is_terminal=is_terminal)
    monkeypatch.setattr("sys.stderr", screen)
    before = structlog.get_config()
    set_up_logging()
    word = "".join(["hun", "ter2"])
    try:
        raise OSError(f"a word of {len(word)} letters")
    except OSError:
        structlog.get_logger("test").exception("a request failed")
    finally:
        structlog.configure(**before)
    assert "OSError" in screen.getvalue()
    assert "a word of 7 letters" in screen.getvalue()
    assert "hunter2" not in screen.getvalue()


def test_what_libraries_log_is_one_json_object_per_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(is_terminal=False)
    monkeypatch.setattr("sys.stderr", screen)
    before, handlers, level = structlog.get_config(), logging.root.handlers[:], logging.root.level
    logging.root.handlers[:] = []
    set_up_logging()
    try:
        logging.getLogger("uvicorn.error").warning("two\nlines of %s", "text")
        logging.getLogger("uvicorn.error").info("Started server process")
    finally:
        structlog.configure(**before)
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
    (line,) = screen.getvalue().splitlines()
    message = json.loads(line)
    assert (message["event"], message["level"]) == ("two\nlines of text", "warning")
