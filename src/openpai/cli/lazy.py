"""Commands that are imported when they are called, so that each starts quickly.

A group is a table: the name of each command, its function, and its line in the help. The help is printed from the
table without importing anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, Final, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

Table = Mapping[str, tuple[str, str]]
_PATHS: Final = (Path, Path | None)


class _Once:
    """A command that refuses an option of one value that is given twice: otherwise the last would win silently.

    It also refuses an empty path, which would be the directory where the command runs.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        if not ctx.resilient_parsing:
            command: Any = self
            values, _, given = command.make_parser(ctx).parse_args(list(args))
            for option, count in Counter(given).items():
                if count > 1 and option.param_type_name == "option" and not (option.multiple or option.is_flag):
                    name = max(option.opts, key=len)
                    ctx.fail(f"{name} is given {count} times and takes one value.")
            hints = get_type_hints(command.callback) if "" in values.values() and command.callback else {}
            for name in (name for name, value in values.items() if value == "" and hints.get(name) in _PATHS):
                ctx.fail(f"--{name.replace('_', '-')} is empty.")
        return super().parse_args(ctx, args)  # type: ignore[misc]


class Command(_Once, TyperCommand):
    """A command of `pai`."""


def lazily(table: Table) -> type[TyperGroup]:
    """Return the class of a group that finds its commands in a table, in addition to those added to it."""

    class Lazy(_Once, TyperGroup):
        commands_by_name = table

        def list_commands(self, ctx: Any) -> list[str]:
            return [*table, *(name for name in super().list_commands(ctx) if name not in table)]

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name in table and cmd_name not in self.commands:
                self.commands[cmd_name] = load(cmd_name, table[cmd_name][0])
            return super().get_command(ctx, cmd_name)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            wanted = args[0]
            if self.get_command(ctx, wanted) is None and not ctx.resilient_parsing:
                near = get_close_matches(wanted, self.list_commands(ctx))
                ctx.fail(f"No such command {wanted!r}." + (f" Did you mean {' or '.join(near)}?" if near else ""))
            return super().resolve_command(ctx, args)

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            given = {name: command for name, command in self.commands.items() if not command.hidden}
            width = formatter.width - 6 - max(map(len, [*table, *given]))
            rows = [(name, message) for name, (_, message) in table.items()]
            rows += [(name, one.get_short_help_str(width)) for name, one in given.items() if name not in table]
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    return Lazy


def group(message: str, table: Table) -> typer.Typer:
    """Return a group of commands, each of which is imported when it is called."""
    app = typer.Typer(cls=lazily(table), help=message, no_args_is_help=True, rich_markup_mode=None)
    app.callback()(_nothing)
    return app


def extend(app: typer.Typer, table: Table) -> None:
    """Add commands to a group, each of which is imported when it is called."""
    app.info.cls = lazily({**getattr(app.info.cls, "commands_by_name", {}), **table})


def load(name: str, place: str) -> Any:
    """Return the command, or group of commands, at a place written as `module:attribute`."""
    module, _, attribute = place.partition(":")
    target = getattr(import_module(module), attribute)
    if isinstance(target, typer.Typer):
        loaded: Any = typer.main.get_group(target)
    else:
        lone = typer.Typer(rich_markup_mode=None, add_completion=False)
        lone.command(name, cls=Command, context_settings=getattr(target, "context_settings", None))(target)
        loaded = typer.main.get_command(lone)
    loaded.name = name
    return loaded


def _nothing() -> None:
    """Keep Typer from merging a group with its only command."""
