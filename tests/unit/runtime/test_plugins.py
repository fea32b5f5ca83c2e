"""Which plugins a role has, in which order."""

from __future__ import annotations

from typing import Any

import pytest

from openpai.protocol.job import PLUGIN_PREFIX, JobSpec, Prerequisite, Resources, TaskRole
from openpai.protocol.warnings import EFFECTIVE_PLUGINS, PLUGINS, warnings_of
from openpai.runtime.plugins import STORAGE_PLUGIN, with_plugins


def a_spec(extras: list[dict[str, Any]] | None = None, prerequisites: tuple[Prerequisite, ...] = ()) -> JobSpec:
    role = TaskRole(
        "worker", "image", Resources(1, 1, 0), ("main",), prerequisites=tuple(each.name for each in prerequisites)
    )
    return JobSpec("job", (role,), prerequisites, extras={PLUGIN_PREFIX: extras} if extras is not None else {})


def lines(spec: JobSpec) -> list[str]:
    rendered = with_plugins(spec, "worker", "main", lambda text: text.replace("<% $data.name %>", "digits"))
    return rendered.splitlines()


def test_commands_without_plugins_are_left_alone() -> None:
    assert with_plugins(a_spec(), "worker", "main\n", str) == "main\n"


def test_commands_go_before_and_after_in_opposite_order() -> None:
    spec = a_spec(
        [
            {"plugin": "cmd", "parameters": {"preCommands": ["pre 1"], "postCommands": ["post 1"]}},
            {"plugin": "cmd", "parameters": {"preCommands": ["pre 2 <% $data.name %>"], "postCommands": ["post 2"]}},
        ],
        (
            Prerequisite(
                "script",
                "load",
                plugin=f"{PLUGIN_PREFIX}.cmd",
                extra={
                    "callbacks": [
                        {"event": "taskStarts", "commands": ["pre 0"]},
                        {"event": "taskSucceeds", "commands": ["post 0"]},
                    ]
                },
            ),
        ),
    )
    wanted = ["pre 0", "pre 1", "pre 2 digits", "main", "post 2", "post 1", "post 0"]
    assert [line for line in lines(spec) if line in wanted] == wanted


def test_an_ignored_failure_does_not_end_the_task() -> None:
    spec = a_spec([{"plugin": "cmd", "failurePolicy": "ignore", "parameters": {"preCommands": ["pre"]}}])
    assert lines(spec) == ["(", "trap 'exit 143' TERM", "set +e", "pre", ") || true", "main"]


def test_a_plugin_for_other_roles_is_left_out() -> None:
    spec = a_spec([{"plugin": "cmd", "taskroles": ["ps"], "parameters": {"preCommands": ["pre"]}}])
    assert lines(spec) == ["main"]


@pytest.mark.parametrize(
    "entry",
    [
        {"plugin": "cmd", "parameters": {"preCommands": 3, "callbacks": ["x"]}},
        {"plugin": "cmd", "parameters": {"callbacks": 3}},
        {"plugin": "cmd", "parameters": "preCommands"},
        {"plugin": "cmd", "parameters": {"preCommands": ["no"]}, "taskroles": 3},
        "nonsense",
    ],
)
def test_parameters_of_a_wrong_shape_are_passed_over(entry: Any) -> None:
    assert lines(a_spec([entry])) == ["main"]


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_has_an_effect_or_a_warning(name: str) -> None:
    spec = a_spec([{"plugin": name, "parameters": {"preCommands": ["prepare"]}}])
    is_warned_of = any("no effect" in finding.message for finding in warnings_of(spec))
    # Storages are mounted by the backend and run nothing here.
    assert is_warned_of != (lines(spec) != ["main"] or name == STORAGE_PLUGIN)
    assert is_warned_of != (name in EFFECTIVE_PLUGINS)
