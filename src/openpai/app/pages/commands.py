"""The page of the command line, from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import typer

from openpai.app.main import app
from openpai.app.pages.markdown import code, codes, page, table
from openpai.cli.exits import MEANING

_INTRO: Final = """\
Every command takes `--help`. With `--json`, where a command has it, standard output carries one JSON document and
nothing else (`job logs` and `job submit --watch`: one per line). `--url` goes before the command, as in
`pai --url URL job list`."""
_OF_THE_LIBRARY: Final = frozenset({"install_completion", "show_completion", "help"})


def commands() -> str:
    """Return the page."""
    sections = [_section(path, command) for path, command in walk(typer.main.get_command(app))]
    return page(
        "The command `pai`",
        "the commands' own descriptions",
        _INTRO,
        "## Exit codes",
        table(("Code", "Meaning"), [[str(number.value), message] for number, message in MEANING.items()]),
        *sections,
    )


def walk(command: Any, path: tuple[str, ...] = ("pai",)) -> Iterable[tuple[tuple[str, ...], Any]]:
    """Yield a command and all commands below it, each with its words."""
    yield path, command
    for name in _below(command):
        yield from walk(command.get_command(None, name), (*path, name))


def _below(command: Any) -> list[str]:
    return list(command.list_commands(None)) if hasattr(command, "list_commands") else []


def _section(path: tuple[str, ...], command: Any) -> str:
    given = [one for one in command.params if one.name not in _OF_THE_LIBRARY and not getattr(one, "hidden", False)]
    arguments = [_metavar(one) for one in given if not _is_option(one)]
    below = _below(command)
    usage = " ".join([*path, *(["COMMAND"] if below else arguments)])
    parts = [f"## `{usage}`", (command.help or "").replace("\b\n", "").strip()]
    if given:
        hints = get_type_hints(command.callback)
        rows = [_row(one, hints.get(one.name)) for one in given]
        parts.append(table(("Option or argument", "Default", "Meaning"), rows))
    return "\n\n".join(parts)


def _is_option(parameter: Any) -> bool:
    return any(name.startswith("-") for name in parameter.opts)


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _row(parameter: Any, hint: Any) -> list[str]:
    message = parameter.help or ""
    if get_origin(hint) is Literal:
        message += f" One of {codes(get_args(hint))}."
    if getattr(parameter, "envvar", None):
        message += f" Also read from the environment variable `{parameter.envvar}`."
    name = codes([*parameter.opts, *parameter.secondary_opts]) if _is_option(parameter) else code(_metavar(parameter))
    return [name, _default(parameter), message]


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    is_plain = isinstance(default, (str, int, float)) and not isinstance(default, bool)
    return code(str(default)) if is_plain or hasattr(default, "parts") else ""
