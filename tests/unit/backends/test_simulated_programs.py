"""What simulated tasks do, read from their commands."""

from __future__ import annotations

import pytest

from openpai.backends.simulated.programs import Program, program_of
from openpai.protocol.job import PLUGIN_PREFIX, JobSpec, Resources, TaskRole
from openpai.runtime.plugin import PluginContext
from openpai.runtime.plugins import with_plugins

DEFAULT_MS = 700


def read(commands: str, **env: str) -> Program:
    return program_of(commands, env, DEFAULT_MS)


@pytest.mark.parametrize(
    ("commands", "ends_after_ms", "code"),
    [
        ("true", 0, 0),
        ("exit 3", 0, 3),
        ("false\nsleep 5", 0, 1),
        ("sleep 1.5; exit 4; sleep 9", 1500, 4),
        ("sleep 2m && false && sleep 1", 120_000, 1),
        ("false || sleep 1", 1000, 0),
        ("true || sleep 1", 0, 0),
        ("sleep infinity", None, 0),
        ("python train.py --lr 0.1\npython evaluate.py", DEFAULT_MS, 0),
        ("cat a | grep b > c", DEFAULT_MS, 0),
        ("# sleep 5\nsleep 1 # and no longer", 1000, 0),
        ("(\ntrap 'exit 143' TERM\nsleep 1\n)", 1000, 0),
        ("(\nexit 0\n)\nsleep 1", 1000, 0),
        ("(\nsleep 1\nexit 3\nsleep 9\n) || true\nsleep 1; exit 4", 2000, 4),
        ("(\nexit 3\n)\nsleep 1", 0, 3),
        ("((exit 2); sleep 5) && sleep 9", 0, 2),
        ("(\nset +e\nfalse\nsleep 1\n) || true\nfalse\nsleep 5", 1000, 1),
        ("true || (exit 4; sleep 1)\nsleep 2", 2000, 0),
        ("( export SIMULATED_EXIT_CODE=7 )\nsleep 1", 1000, 0),
        ("when=$(date); sleep 1", 1000 + DEFAULT_MS, 0),
        (")) sleep 1", 1000, 0),
        ("( ( sleep 1", 1000, 0),
        ("sleep forever", 0, 1),
        ("", 0, 0),
        ("exit 300", 0, 44),
        ("echo 'unfinished", DEFAULT_MS * 0, 0),
    ],
)
def test_how_long_and_how_it_ends(commands: str, ends_after_ms: int | None, code: int) -> None:
    program = read(commands)
    assert (program.ends_after_ms, program.code) == (ends_after_ms, code)


def test_what_it_says_and_when() -> None:
    program = read("echo 'a  b' \"$WHO\" c\\ d\nsleep 1\necho ${WHO}; echo '$WHO'", WHO="me")
    assert program.says == ((0, "a  b me c d\n"), (1000, "me\n"), (1000, "$WHO\n"))


def test_output_into_a_file_is_not_said() -> None:
    assert read("echo a > file").says == ()


def test_variables_overrule() -> None:
    assert read("python train.py", SIMULATED_RUN_S="2.5", SIMULATED_EXIT_CODE="7").ends_after_ms == 2500
    assert read("export SIMULATED_EXIT_CODE=7\npython train.py").code == 7
    assert read("echo 1\nsleep 5\necho 2", SIMULATED_RUN_S="1").says == ((0, "1\n"),)


def test_read_waits_for_a_word_from_outside() -> None:
    program = read("echo a\nread go\nsleep 1\nexit 5")
    assert program.ends_after_ms is None
    assert program.after_read == Program(ends_after_ms=1000, code=5)


def test_what_follows_read_in_a_group_is_still_in_the_group() -> None:
    program = read("(\nread go\nexit 0\n)\nsleep 1\nexit 6")
    assert program.ends_after_ms is None
    assert program.after_read == Program(ends_after_ms=1000, code=6)


def test_traps() -> None:
    assert read("trap '' TERM\nsleep 1").ignores_term
    saved = read("trap 'echo saved; sleep 1; exit 9' TERM\nsleep 1").on_term
    assert saved == Program(says=((0, "saved\n"),), ends_after_ms=1000, code=9)
    assert read("trap 'echo gone' EXIT\nsleep 1").on_term is None


@pytest.mark.parametrize(
    ("own", "post", "code"), [("exit 3", "true", 3), ("true", "exit 4", 4), ("exit 3", "exit 4", 3)]
)
def test_commands_after_the_tasks_own_run_however_those_ended(own: str, post: str, code: int) -> None:
    plugin = {"plugin": "cmd", "parameters": {"postCommands": ["echo after $PAI_TASK_EXIT_CODE", post]}}
    role = TaskRole("worker", "image", Resources(1, 1, 0), (own,))
    spec = JobSpec("job", (role,), extras={PLUGIN_PREFIX: [plugin]})
    text = with_plugins(spec, PluginContext("ann", "job", "worker"), own, lambda value: value)
    program = program_of(text, {}, 1000)
    assert program.code == code
    assert [line for _, line in program.says] == [f"after {3 if own == 'exit 3' else 0}\n"]


def test_scripts_of_plugins_are_not_read_as_commands_of_the_task() -> None:
    plugin = {"plugin": "git", "parameters": {"repo_uri": "https://example.com/code.git"}}
    role = TaskRole("worker", "image", Resources(1, 1, 0), ("exit 3",))
    spec = JobSpec("job", (role,), extras={PLUGIN_PREFIX: [plugin]})
    text = with_plugins(spec, PluginContext("ann", "job", "worker"), "exit 3", lambda value: value)
    assert read(text).code == 3
