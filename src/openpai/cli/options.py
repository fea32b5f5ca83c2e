"""Declarations of options and arguments, and those that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import Field, field, fields
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

Complete = Callable[[str], list[str]]
Command = Callable[..., Any]


def option(flags: str, message: str, complete: Complete | None = None, **more: Any) -> Any:
    """Return an option with its flags, and the name of its value if it takes one, as in `--role -r ROLE`."""
    *names, last = flags.split()
    if last.startswith("-"):
        return typer.Option(*names, last, help=message, autocompletion=complete, **more)
    return typer.Option(*names, metavar=last, help=message, autocompletion=complete, **more)


def argument(metavar: str, message: str, complete: Complete | None = None, **more: Any) -> Any:
    """Return an argument with its name and its line in the help."""
    return typer.Argument(metavar=metavar, help=message, autocompletion=complete, **more)


def setting(message: str, default: Any = None, *, flags: str = "", **more: Any) -> Any:
    """Return a field for `fields_as_options`, whose option has the field's name unless there are `flags`."""
    return field(default=default, metadata={"flags": flags, "message": message, **more})


def fields_as_options(kind: type[Any], name: str, *, without: Collection[str] = ()) -> Callable[[Command], Command]:
    """Return a decorator that gives a command an option for each field of a dataclass, instead of one parameter.

    The command is called with the instance that the options make; fields in `without` keep their defaults.
    """
    hints = get_type_hints(kind, include_extras=True)
    options = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=one.default,
            annotation=_with_option(one, hints[one.name]),
        )
        for one in fields(kind)
        if one.name not in without
    ]

    def decorate(command: Command) -> Command:
        own = get_type_hints(command, include_extras=True)
        parameters: list[inspect.Parameter] = []
        for each in inspect.signature(command).parameters.values():
            each = each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=own[each.name])
            parameters += options if each.name == name else [each]

        @wraps(command)
        def with_options(**given: Any) -> Any:
            value = kind(**{one.name: given.pop(one.name) for one in options})
            return command(**given, **{name: value})

        with_options.__signature__ = inspect.Signature(parameters, return_annotation=own["return"])  # type: ignore[attr-defined]
        # Typer reads the types here and the order and defaults from the signature.
        with_options.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": own["return"]}
        del with_options.__wrapped__
        return with_options

    return decorate


def _with_option(of: Field[Any], hint: Any) -> Any:
    flags = of.metadata["flags"] or f"--{of.name.replace('_', '-')}"
    return Annotated[hint, option(**{**of.metadata, "flags": flags})]
