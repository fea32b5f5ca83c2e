"""A job file on its way to the platform: read from disk or a pipe, with a name or parameters changed on the way.

Changes are made in the text itself, one value at a time: comments stay, and lines keep their numbers, so that a
fault is reported where its author finds it.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from openpai.protocol.errors import Fault, Refused, harmless
from openpai.protocol.json_text import is_json, without_comments
from openpai.protocol.scalars import resolve

if TYPE_CHECKING:
    import yaml

EXCERPT_WIDTH: Final = 110


def read(file: str) -> bytes:
    """Return the content of a file, or of standard input for `-`; raise Refused when it cannot be read."""
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise Refused(
            "InvalidParametersError", f"cannot read {file}: {error.strerror or error}", "give the path of a job file"
        ) from error


def _scalar(text: str) -> str:
    import yaml

    value: Any = resolve(text)
    if text[:1] in ("'", '"'):
        with contextlib.suppress(yaml.YAMLError):
            value = yaml.safe_load(text)
    # Plain text stays as it was typed: YAML would fold its lines and read dates and lists into it.
    if not isinstance(value, str | int | float):
        value = text
    return json.dumps(value, ensure_ascii=False)


def _child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    import yaml

    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)


def _keys(node: yaml.Node | None) -> list[str]:
    import yaml

    return [str(name.value) for name, _ in node.value] if isinstance(node, yaml.MappingNode) else []


def _compose(text: str) -> yaml.Node | None:
    import yaml

    try:
        return next(iter(yaml.compose_all(text, Loader=yaml.SafeLoader)), None)
    except yaml.YAMLError as error:
        line = mark.line + 1 if (mark := getattr(error, "problem_mark", None)) else None
        where = f"line {line}: " if line else ""
        problem = getattr(error, "problem", None) or "not YAML"
        raise Refused(
            "InvalidProtocolError", f"the job file is no YAML: {where}{problem}", "mend it; nothing was submitted"
        ) from error


def _target(parent: yaml.Node | None, key: str, what: str) -> yaml.ScalarNode:
    import yaml

    node = _child(parent, key)
    if node is None:
        near = difflib.get_close_matches(key, _keys(parent), 1)
        raise Refused(
            "InvalidParametersError",
            f"the job file has no {what} {key!r}; it has: {', '.join(_keys(parent)) or 'none'}",
            f"did you mean {near[0]!r}?" if near else f"only a {what} that is in the file can be changed",
        )
    if not isinstance(node, yaml.ScalarNode):
        raise Refused("InvalidParametersError", f"{what} {key!r} is not a single value", "change it in the file")
    return node


def _parse(assignment: str) -> tuple[str, str]:
    key, equals, value = assignment.partition("=")
    if not equals or not key:
        raise Refused("InvalidParametersError", f"{assignment!r} is no assignment", "write it as --set key=value")
    return key, value


def changed(content: bytes, name: str | None, assignments: Iterable[str]) -> bytes:
    """Return a job file with another name and other values for parameters it declares."""
    wanted = [_parse(assignment) for assignment in assignments]
    if name is None and not wanted:
        return content
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused("InvalidProtocolError", "the job file is not UTF-8 text", "save it as UTF-8") from error
    document = _compose(without_comments(text) if is_json(text) else text)
    # A file of version 1 has other words for the same.
    name_key = "jobName" if _child(document, "jobName") else "name"
    parameters = _child(document, "parameters") or _child(document, "jobEnvs")
    targets = [(_target(parameters, key, "parameter"), value) for key, value in wanted]
    if name is not None:
        targets.append((_target(document, name_key, "key"), name))
    edits = [(node.start_mark.index, node.end_mark.index, _scalar(value)) for node, value in targets]
    for start, end, value in sorted(edits, reverse=True):
        text = text[:start] + value + text[end:]
    return text.encode()


def excerpt(text: str, fault: Fault) -> str:
    """Return the faulty line with the line before it and a caret under what is meant; empty without a line."""
    lines = text.splitlines()
    if fault.line is None or not 0 < fault.line <= len(lines):
        return ""
    line = lines[fault.line - 1].expandtabs(1)
    word = fault.path.rpartition(".")[2].partition("[")[0]
    start = line.find(word) if word else -1
    if start < 0:
        start, word = len(line) - len(line.lstrip()), line.strip()
    # A file of one long line is shown from shortly before what is meant.
    left = max(0, start - EXCERPT_WIDTH // 2) if start + len(word) > EXCERPT_WIDTH else 0
    shown = [
        f"{number:>5} | {harmless(lines[number - 1].expandtabs(1)[left : left + EXCERPT_WIDTH])}"
        for number in (fault.line - 1, fault.line)
        if number
    ]
    marked = min(max(1, len(word)), EXCERPT_WIDTH - (start - left))
    return "\n".join([*shown, f"      | {' ' * (start - left)}{'^' * marked}"])


def told(text: str, faults: Iterable[Fault]) -> str:
    """Return every fault with the lines it is about, for a person."""
    return "\n\n".join("\n".join(part for part in (f.told(), excerpt(text, f)) if part) for f in faults)
