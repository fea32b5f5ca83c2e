"""Commands that are loaded when they are called, and what their tables say of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from openpai.cli.main import COMMANDS
from tests import command_tree

WALKED = command_tree.WALKED[1:]


def tables():
    """Yield every table of commands with the words that lead to it."""
    from importlib import import_module

    yield (), COMMANDS
    for name, (place, _) in COMMANDS.items():
        table = getattr(import_module(place.partition(":")[0]), "COMMANDS", None)
        if table is not None:
            yield (name,), table


@pytest.mark.parametrize(("path", "command"), WALKED, ids=lambda one: "-".join(one) if isinstance(one, tuple) else "")
def test_each_command_says_in_a_sentence_what_it_does(path, command):
    message = (command.help or "").strip().split("\n\n")[0].replace("\n", " ")
    assert message.endswith("."), path
    assert (
        "--json" in {name for one in command.params for name in one.opts}
        or hasattr(command, "commands")
        # What `exec` prints is the output of the user's own command.
        or path[1:] in {("up",), ("simulate",), ("job", "exec")}
    ), f"{path} has nothing for programs"


def test_tables_say_what_the_commands_say():
    by_path = dict(WALKED)
    for above, table in tables():
        for name, (_, message) in table.items():
            help_ = by_path["pai", *above, name].help.strip().split("\n\n")[0].replace("\n", " ")
            # A line of the help may be shorter than the sentence, but it is about the same action.
            assert message.split()[0] == help_.split()[0], (*above, name)


@pytest.mark.parametrize("arguments", [["--help"], ["job", "--help"], ["job", "list", "--help"]])
def test_help_loads_no_other_command_no_client_and_nothing_of_a_server(arguments):
    program = (
        "import sys; sys.argv = ['pai', *sys.argv[1:]]\n"
        "from openpai.app.main import run\n"
        "try: run()\n"
        "except SystemExit: pass\n"
        "late = ('httpx', 'openpai.client', 'openpai.cli.user', 'openpai.cli.job_submit', 'openpai.cli.job_logs',\n"
        "        'openpai.app.settings', 'openpai.api', 'openpai.ports', 'structlog')\n"
        "sys.stderr.write(' '.join(name for name in late if name in sys.modules))"
    )
    message = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    loaded = set(message.stderr.split())
    assert loaded == set()


def test_no_line_about_a_command_is_cut_off(pai):
    for path in ((), *((name,) for name, (place, _) in COMMANDS.items() if place.endswith(":app")), ("admin",)):
        assert "..." not in pai(*path, "--help").out.partition("Commands:")[2]


def test_every_line_of_every_help_fits_a_terminal(pai):
    for path, _ in WALKED[:: max(1, len(WALKED) // 12)]:
        assert max(map(len, pai(*path[1:], "--help").out.splitlines())) <= 80, path
