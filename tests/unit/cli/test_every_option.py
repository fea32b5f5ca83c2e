"""Every option of every command, found by walking the commands, so that a new one is covered when it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer

from openpai.app.main import app
from openpai.app.pages.commands import walk
from openpai.cli.durations import FORMS
from tests.outcome import Outcome

COMMANDS = [(path[1:], command) for path, command in walk(typer.main.get_command(app)) if len(path) > 1]
LEAVES = [(path, command) for path, command in COMMANDS if not hasattr(command, "commands")]


def name_of(param: Any) -> str:
    """Return what people call an option."""
    return max(param.opts, key=len)


def options() -> Iterator[Any]:
    """Yield each option of each command that takes a value."""
    for path, command in LEAVES:
        for param in command.params:
            if param.param_type_name == "option" and not param.is_flag and param.name != "help":
                yield pytest.param(path, command, param, id=f"{'-'.join(path)}{name_of(param)}")


OPTIONS = list(options())


def test_the_walk_finds_the_commands() -> None:
    paths = {path for path, _ in LEAVES}
    assert {("up",), ("run",), ("job", "submit"), ("admin", "restore"), ("scheduler", "replay")} <= paths
    assert len(paths) > 80


@pytest.mark.parametrize(("path", "command", "option"), OPTIONS)
def test_an_option_of_one_value_is_not_given_twice(
    pai: Callable[..., Outcome], path: tuple[str, ...], command: Any, option: Any
) -> None:
    if option.multiple:
        assert option.metavar or option.help
        return
    message = pai(*path, name_of(option), "1", name_of(option), "2")
    assert (message.code, message.out) == (2, "")
    assert f"{name_of(option)} is given 2 times and takes one value" in message.err


@pytest.mark.parametrize(("path", "command", "option"), OPTIONS)
def test_a_length_of_time_says_its_form_and_what_a_bare_number_is(
    path: tuple[str, ...], command: Any, option: Any
) -> None:
    if option.metavar != "TIME" or name_of(option) in ("--since", "--before"):
        return
    assert FORMS in (option.help or "")
