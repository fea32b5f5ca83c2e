"""The configuration file of `pai up`: every option under its own name, below the environment and the command line.

A YAML mapping such as `port: 8080`, without secrets: a value may only name the file that has one. The options of
`pai up` are the only list of settings: the file's keys, the variables of the environment and the annotated example are
all derived from them, so none can be forgotten.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints
from urllib.parse import parse_qs, urlsplit

import yaml

from openpai.app.setting_values import value_fault
from openpai.cli.text_file import read_text
from openpai.protocol.errors import BadConfiguration, Fault
from openpai.protocol.spelling import nearest
from openpai.protocol.wording import WORD_MAX, cut, listed, plural

ENVIRONMENT_PREFIX: Final = "PAI"
BYTES_MAX: Final = 1 << 20
_FAULTS_MAX: Final = 100
_NOT_IN_THE_FILE: Final = frozenset({"config", "help"})
_WIDTH: Final = 100
_PLACES: Final = "openpai.places"
_KINDS: Final[Mapping[Any, str]] = {
    bool: "true or false",
    int: "a whole number",
    int | None: "a whole number",
    float: "a number",
}
_OTHERS: Final = """\
# Secrets have no key here. They come from the environment of the server: PAI_ADMIN_PASSWORD (the first password of
# the user admin, used once), PAI_SECRET_KEY (the key that seals secrets, instead of the file `secret.key` of the data
# directory), and what the identity file names. A database's password is in PAI_DATABASE_URL, or in a file:
# postgresql://pai@db/pai?passfile=FILE."""


def read_into(context: Any, path: Path | None) -> None:
    """Use the values of a file as defaults of the command's other options.

    Raise Refused for a file that cannot be read, and, with every fault and its line, for unknown and repeated keys and
    for values that a setting cannot have. Where the values are is kept for `origins_of`.
    """
    if path is None:
        return
    file = path.expanduser().absolute()
    options = options_of(context.command)
    lines: dict[str, int] = {}
    values: dict[str, Any] = {}
    faults: list[Fault] = []
    for key, node in _entries(file):
        line, option = node.start_mark.line + 1, options.get(key)
        if option is None:
            meant = nearest(key.replace("_", "-"), options)
            faults.append(Fault(key, "there is no such setting", line, suggestion=meant))
        elif key in lines:
            faults.append(Fault(key, f"is also set in line {lines[key]}: keep one of the two", line))
        else:
            lines[key] = line
            try:
                value = _value(context, option, node, file.parent)
            except _Unfit as unfit:
                faults.append(replace(unfit.fault, path=key, line=line))
            else:
                values.update({} if value is None else {option.name: value})
        if len(faults) >= _FAULTS_MAX:
            break
    if faults:
        listed_faults = "\n".join(fault.describe() for fault in faults)
        message = f"{file} has {plural(len(faults), 'fault')}:\n{listed_faults}"
        raise BadConfiguration(message, "correct the lines named above; `pai admin config` explains every setting")
    context.default_map = {**(context.default_map or {}), **values}
    context.meta[_PLACES] = {options[key].name: f"line {line} of {file}" for key, line in lines.items()}


def origins_of(context: Any) -> dict[str, str]:
    """Return where the value of each setting came from that was not given on the command line, by key."""
    places = context.meta.get(_PLACES, {})
    found = {}
    for key, option in options_of(context.command).items():
        source = getattr(context.get_parameter_source(option.name), "name", "")
        if source == "DEFAULT_MAP":
            found[key] = places[option.name]
        elif source == "ENVIRONMENT":
            found[key] = f"the variable {variable_of(option)}"
    return found


def options_of(command: Any) -> dict[str, Any]:
    """Return the options that a file may set, by key."""
    options = [one for one in command.params if one.name not in _NOT_IN_THE_FILE and not one.hidden]
    return {one.opts[0].removeprefix("--"): one for one in options}


def variable_of(option: Any) -> str:
    """Return the environment variable that sets an option."""
    own = option.envvar
    return own if isinstance(own, str) else f"{ENVIRONMENT_PREFIX}_{option.name.upper()}"


@cache
def _hints_of(callback: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of the options of a command, which take longer to find than all else about them."""
    return get_type_hints(callback)


def choices_of(command: Any, option: Any) -> tuple[str, ...]:
    """Return the values that an option is limited to; empty for one without a limit."""
    hint = _hints_of(command.callback).get(option.name)
    return get_args(hint) if get_origin(hint) is Literal else ()


def described(command: Any) -> list[dict[str, Any]]:
    """Return every setting for programs: name, environment variable, default, allowed values and meaning."""
    return [
        {
            "name": key,
            "environment": variable_of(option),
            "default": str(option.default) if hasattr(option.default, "parts") else option.default,
            "choices": list(choices_of(command, option)),
            "meaning": option.help,
        }
        for key, option in options_of(command).items()
    ]


def example(command: Any) -> str:
    """Return a file with every setting, each explained and commented out, with its default value."""
    return "\n\n".join(["# Configuration of `pai up --config FILE`.", *_explained(command), _OTHERS]) + "\n"


def _explained(command: Any) -> Iterator[str]:
    for key, option in options_of(command).items():
        message = option.help or ""
        if choices := choices_of(command, option):
            message += f" One of: {', '.join(choices)}."
        lines = [f"# {line}" for line in textwrap.wrap(f"{message} Environment: {variable_of(option)}.", _WIDTH)]
        yield "\n".join([*lines, f"# {key}: {written(option.default)}".rstrip()])


def written(default: Any) -> str:
    """Return a default as written in the file; empty for none."""
    if default is None:
        return ""
    value = str(default) if hasattr(default, "parts") else default
    return yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix("\n").removesuffix("...").strip()


def _entries(file: Path) -> Iterator[tuple[str, yaml.Node]]:
    """Yield the keys of a file and their values as YAML nodes, which have line numbers."""
    text = read_text(file, "a configuration file", most=BYTES_MAX, code="BadConfigurationError")
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", line {mark.line + 1}"
        problem = getattr(error, "problem", None) or "cannot be read"
        raise BadConfiguration(f"{file}{line}: not YAML: {problem}", "correct the line") from error
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        raise BadConfiguration(f"{file} is not a list of settings", "write lines such as `port: 8080`")
    for key, node in root.value:
        yield str(key.value), node


class _Unfit(Exception):
    """A value that a setting cannot have."""

    def __init__(self, message: str, allowed: str = "", suggestion: str = "") -> None:
        super().__init__(message)
        self.fault = Fault("", message, allowed=allowed, suggestion=suggestion)


def _value(context: Any, option: Any, node: yaml.Node, directory: Path) -> Any:
    """Return the value of a node as the option takes it; None for none. Raises _Unfit."""
    if not isinstance(node, yaml.ScalarNode):
        raise _Unfit("a setting takes one value", "a line such as `key: value`")
    if node.tag == "tag:yaml.org,2002:null":
        return None
    # The text as written: YAML 1.1 would read 0755 and 1:30 as other numbers.
    text = str(node.value)
    hint = get_type_hints(context.command.callback).get(option.name)
    if hint in (Path, Path | None):
        path = Path(text).expanduser()
        if not text.strip():
            raise _Unfit("is empty", "a path; leave the line out for the default")
        return str(path if path.is_absolute() else directory / path)
    _refuse_secret(text, variable_of(option))
    try:
        typed = option.process_value(context, text)
    except Exception as error:
        # The class of this error is private to the command line library.
        if getattr(error, "message", None) is None:
            raise
        choices = choices_of(context.command, option)
        allowed = listed(choices) if choices else _KINDS[type(option.default) if option.default is not None else hint]
        raise _Unfit(f"must not be {cut(text, WORD_MAX)!r}", allowed, nearest(text, choices)) from error
    fault = value_fault(option.name, typed)
    if fault is not None:
        raise _Unfit(f"{fault.message}; {fault.advice}")
    return text


def _refuse_secret(value: str, variable: str) -> None:
    """Refuse an address with a password in it, or with a file of passwords that others can read."""
    if "://" not in value:
        return
    try:
        address = urlsplit(value)
        query, has_password = parse_qs(address.query), bool(address.password)
    except ValueError:
        # What uses the address says what is wrong with it.
        return
    if has_password or "password" in query:
        of_database = ", or, for PostgreSQL, a file of passwords in its place: ...?passfile=FILE"
        allowed = f"{variable} in the environment{of_database if 'sql' in address.scheme else ''}"
        raise _Unfit("holds a password, which does not belong into this file", allowed)
    try:
        for name in query.get("passfile", ()):
            refuse_readable(Path(name), "names a file of passwords that", 0o077)
    except BadConfiguration as error:
        raise _Unfit(error.message, error.advice) from error


def refuse_readable(file: Path, what: str, bits: int) -> None:
    """Raise Refused for a file that does not exist, or that the users of these bits of its mode may use."""
    try:
        mode = file.stat().st_mode
    except OSError as error:
        raise BadConfiguration(f"{what} cannot be read: {file}: {error.strerror}", "correct its path") from error
    if mode & bits:
        raise BadConfiguration(f"{what} other users of this machine can read: {file}", f"chmod 600 {file}")
