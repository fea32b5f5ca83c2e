"""The configuration file of `pai up`: every option under its own name, below the environment and the command line.

A YAML mapping such as `port: 8080`, without secrets: a value may only name the file that has one. The options of
`pai up` are the only list of settings: the file's keys, the variables of the environment and the annotated example are
all derived from them, so none can be forgotten.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints
from urllib.parse import parse_qs, urlsplit

import yaml

from openpai.cli.text_file import read_text
from openpai.protocol.errors import BadConfiguration, Refused
from openpai.protocol.spelling import nearest

ENVIRONMENT_PREFIX: Final = "PAI"
BYTES_MAX: Final = 1 << 20
_NOT_IN_THE_FILE: Final = frozenset({"config", "help"})
_WIDTH: Final = 100
_OTHERS: Final = """\
# Secrets have no key here. They come from the environment of the server: PAI_ADMIN_PASSWORD (the first password of
# the user admin, used once), PAI_SECRET_KEY (the key that seals secrets, instead of the file `key` of the data
# directory), and what the identity file names. A database's password is in PAI_DATABASE_URL, or in a file:
# postgresql://pai@db/pai?passfile=FILE."""


def read_into(context: Any, path: Path | None) -> None:
    """Use the values of a file as defaults of the command's other options.

    Raise Refused for a file that cannot be read, an unknown or repeated key, and an invalid value, with their lines.
    """
    if path is None:
        return
    file = path.expanduser().absolute()
    options = options_of(context.command)
    hints = get_type_hints(context.command.callback)
    values: dict[str, Any] = {}
    for key, node in _entries(file):
        where = f"{file}, line {node.start_mark.line + 1}"
        option = options.get(key)
        if option is None:
            near = nearest(key.replace("_", "-"), options)
            advice = f"did you mean {near!r}?" if near else "`pai admin config` prints every setting"
            raise BadConfiguration(f"{where}: there is no setting {key!r}", advice)
        if option.name in values:
            raise BadConfiguration(f"{where}: {key!r} occurs twice", "keep one of the two")
        is_path = hints.get(option.name) in (Path, Path | None)
        value = _value(option, node, where, file.parent, is_path)
        if value is not None:
            _refuse_secret(value, f"{where}: {key}", variable_of(option))
            values[option.name] = value
            _check(context, option, value, f"{where}: {key}")
    context.default_map = {**(context.default_map or {}), **values}


def options_of(command: Any) -> dict[str, Any]:
    """Return the options that a file may set, by key."""
    options = [one for one in command.params if one.name not in _NOT_IN_THE_FILE and not one.hidden]
    return {one.opts[0].removeprefix("--"): one for one in options}


def variable_of(option: Any) -> str:
    """Return the environment variable that sets an option."""
    own = option.envvar
    return own if isinstance(own, str) else f"{ENVIRONMENT_PREFIX}_{option.name.upper()}"


def choices_of(command: Any, option: Any) -> tuple[str, ...]:
    """Return the values that an option is limited to; empty for one without a limit."""
    hint = get_type_hints(command.callback).get(option.name)
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


def _value(option: Any, node: yaml.Node, where: str, directory: Path, is_path: bool) -> Any:
    if option.multiple:
        if not isinstance(node, yaml.SequenceNode) or not all(isinstance(one, yaml.ScalarNode) for one in node.value):
            raise BadConfiguration(f"{where}: {option.name} takes a list", "write it as [one, two]")
        return [one.value for one in node.value]
    if not isinstance(node, yaml.ScalarNode):
        raise BadConfiguration(f"{where}: a setting takes one value", "write it as `key: value`")
    if node.tag == "tag:yaml.org,2002:null":
        return None
    # The text as written: YAML 1.1 would read 0755 and 1:30 as other numbers.
    text = str(node.value)
    if is_path:
        path = Path(text).expanduser()
        return str(path if path.is_absolute() else directory / path)
    return text


def _check(context: Any, option: Any, value: Any, where: str) -> None:
    try:
        option.process_value(context, value)
    except Refused:
        raise
    except Exception as error:
        # The class of this error is private to the command line library.
        problem = getattr(error, "message", None)
        if problem is None:
            raise
        raise BadConfiguration(f"{where}: {problem}", "`pai up --help` shows what it takes") from error


def _refuse_secret(value: Any, where: str, variable: str) -> None:
    """Raise Refused for an address with a password in it, or with a file of passwords that others can read."""
    if not isinstance(value, str) or "://" not in value:
        return
    try:
        address = urlsplit(value)
        query, has_password = parse_qs(address.query), bool(address.password)
    except ValueError:
        # What uses the address says what is wrong with it.
        return
    if has_password or "password" in query:
        of_database = " or, for PostgreSQL, name a file of passwords in its place: ...?passfile=FILE"
        advice = f"set {variable} in the environment{of_database if 'sql' in address.scheme else ''}"
        raise BadConfiguration(f"{where} holds a password, which does not belong into this file", advice)
    for name in query.get("passfile", ()):
        refuse_readable(Path(name), f"{where} names a file of passwords that", 0o077)


def refuse_readable(file: Path, what: str, bits: int) -> None:
    """Raise Refused for a file that does not exist, or that the users of these bits of its mode may use."""
    try:
        mode = file.stat().st_mode
    except OSError as error:
        raise BadConfiguration(f"{what} cannot be read: {file}: {error.strerror}", "correct its path") from error
    if mode & bits:
        raise BadConfiguration(f"{what} other users of this machine can read: {file}", f"chmod 600 {file}")
