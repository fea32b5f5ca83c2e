"""Wrong values for every option and argument of every command: one clear error, whatever the value is.

The commands are found by walking them, so that a new option is covered when it is written.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.command_tree import LEAVES, WHOLE
from tests.outcome import Outcome
from tests.unit.cli.test_every_option import name_of

pytestmark = pytest.mark.slow

VALUES = (
    "abc",
    "-1",
    "9" * 30,
    "",
    "a\0b",
    "ünï\u202e\x1b[31m",
    "nowhere/at.all",
    "/dev/urandom",
    "/",
    "1e400",
    "\udcff",
)
WITHIN_S = 60
"""A bound against hanging only: a busy machine takes its time."""
RAW = re.compile(r"Traceback|pydantic|(?i:input should|value error)|errors\.pydantic|\[type=|object at 0x|Errno")
SMALL = {"simulate": {"synthetic": "jobs=20,days=1,vcs=2"}}
"""What a command is given besides an option, so that the option is looked at and little is done."""
REPORTING = {"doctor"}
"""Commands whose answer is a list of faults, on standard output."""
PROPER = {0, 1, 2, 3, 4, 5, 6, 7}


@contextmanager
def bounded() -> Iterator[None]:
    def hangs(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"it hangs for {WITHIN_S} s")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(WITHIN_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def harmless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let no command start a server, ask a question, or find anything of this machine's user."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "PAI_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAI_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("PAI_TOKEN", "t")
    monkeypatch.setattr("openpai.app.serve.serve", lambda *_: None)
    # Loggers keep the stream they see first, and this one is closed when the test is over.
    monkeypatch.setattr("structlog.configure", lambda **_: None)
    monkeypatch.setattr("openpai.client.retry.TRIES", 1)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    # Built once: building all commands takes longer than most of them run.
    monkeypatch.setattr("openpai.cli.main.app", WHOLE)


@pytest.mark.parametrize("line", ["vc apply {}", "user import {}"])
@pytest.mark.parametrize(("file", "why"), [("/dev/urandom", "a device"), ("/", "a directory"), ("no", "be read")])
def test_a_file_that_never_ends_or_is_none_is_refused(
    pai: Callable[..., Outcome], platform: Any, harmless: None, line: str, file: str, why: str
) -> None:
    with bounded():
        message = pai(*line.format(file).split())
    assert (message.code, platform.asked) == (2, [])
    assert why in message.err


def needed(command: Any, besides: Any) -> list[str]:
    """Return values for what a command cannot do without."""
    words = []
    for param in command.params:
        if param.required and param is not besides:
            words += [name_of(param), "x"] if param.param_type_name == "option" else ["x"]
    small = SMALL.get(command.name, {})
    # A file that can be written would be.
    is_used = besides.name not in {*small, "trace", "plot"}
    return words + [f"--{name}={value}" for name, value in small.items() if is_used]


def attempts(path: tuple[str, ...], command: Any, values: Sequence[str]) -> Iterator[list[str]]:
    for param in command.params:
        if getattr(param, "is_flag", False) or param.name == "help":
            continue
        for value in values:
            if param.param_type_name == "option":
                yield [*path, f"{name_of(param)}={value}", *needed(command, param)]
            else:
                at = [one for one in command.params if one.param_type_name == "argument"].index(param)
                before = ["x"] * at
                yield [*path, "--", *before, value]


@pytest.mark.parametrize(
    "values", [VALUES[::2], pytest.param(VALUES[1::2], marks=pytest.mark.full)], ids=["some", "others"]
)
@pytest.mark.parametrize(("path", "command"), LEAVES, ids=["-".join(path) for path, _ in LEAVES])
def test_a_wrong_value_is_one_clear_error(
    pai: Callable[..., Outcome],
    platform: Any,
    harmless: None,
    path: tuple[str, ...],
    command: Any,
    values: Sequence[str],
) -> None:
    wrong = []
    for line in attempts(path, command, values):
        with bounded():
            message = pai(*line)
        shown = message.out + message.err
        error = message.err or (message.out if command.name in REPORTING else "")
        if message.code not in PROPER or RAW.search(shown) or (message.code and not error.strip()):
            wrong.append((line, message.code, message.err[-300:]))
        if "\x1b" in shown:
            wrong.append((line, message.code, "orders to the terminal"))
    assert wrong == []
