"""Every option of every command, found by walking the commands, so that a new one is covered when it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from openpai.cli.durations import FORMS
from tests.command_tree import LEAVES
from tests.outcome import Outcome


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


def test_a_length_of_time_says_its_form_and_what_a_bare_number_is() -> None:
    helps = {
        f"{' '.join(path)} {name_of(option)}": option.help or ""
        for path, _, option in (param.values for param in OPTIONS)
        if option.metavar == "TIME" and name_of(option) not in ("--since", "--before")
    }
    assert helps
    assert [where for where, text in helps.items() if FORMS not in text] == []
