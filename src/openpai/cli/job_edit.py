"""Edits in the text of a job file: comments stay, and faults are still reported by the lines of the file.

An existing value is replaced in its place; a missing key gets a line of its own before its neighbours, or joins them
if the mapping is written in braces.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from openpai.protocol.dialect import is_json, resolve, without_comments
from openpai.protocol.errors import Fault, InvalidParameters, Refused

if TYPE_CHECKING:
    import yaml

_LINE: Final = re.compile(r"line (\d+): ")
# What may stand between the place where a YAML list is said to begin and its first dash.
_BEFORE_DASH: Final = re.compile(r"(?:[&!]\S*|\s+|#[^\n]*)*")


@dataclass(frozen=True, slots=True)
class Edited:
    """A job file after edits: what to send, and the line of the original for each of its lines."""

    content: bytes
    text: str
    """The author's own text with the values that were replaced in it."""
    lines: tuple[int | None, ...]
    """For each line of the content its number in the author's file; None for one that was added."""

    def faults(self, found: Iterable[Fault]) -> list[Fault]:
        """Return faults of the content with the lines of the author's file."""
        return [replace(fault, line=self._line(fault.line)) for fault in found]

    def remark(self, message: str) -> str:
        """Return a sentence that may begin with a line of the content with that line of the author's file."""
        found = _LINE.match(message)
        if found is None:
            return message
        line = self._line(int(found[1]))
        return message[found.end() :] if line is None else f"line {line}: {message[found.end() :]}"

    def _line(self, line: int | None) -> int | None:
        return self.lines[line - 1] if line is not None and 0 < line <= len(self.lines) else line


@dataclass(frozen=True, slots=True)
class _Edit:
    start: int
    end: int
    text: str
    is_new: bool = False
    """Whether it adds something that the original does not have."""


class Editor:
    """A job file and the edits to make in it."""

    def __init__(self, content: bytes) -> None:
        try:
            self._text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise Refused("InvalidProtocolError", "the job file is not UTF-8 text", "save it as UTF-8") from error
        text = self._text
        self.root = _compose(without_comments(text) if is_json(text) else text)
        self._edits: list[_Edit] = []
        self._new: dict[int, tuple[yaml.Node, dict[str, Any]]] = {}
        self._first: dict[int, tuple[yaml.SequenceNode, tuple[str, ...]]] = {}

    def replace(self, node: yaml.Node, what: str, value: str) -> None:
        """Replace a single value."""
        import yaml

        if not isinstance(node, yaml.ScalarNode):
            raise InvalidParameters(f"{what} is not a single value", "change it in the file")
        start, end = node.start_mark.index, node.end_mark.index
        self._edits.append(_Edit(start, end, scalar(value) if start < end else f" {scalar(value)}"))

    def put(self, node: yaml.Node, path: Sequence[str], value: Any) -> None:
        """Set the value at `path` below a mapping, whether the keys exist or not."""
        import yaml

        found = child(node, path[0])
        if found is not None and not node.start_mark.index <= found.start_mark.index <= node.end_mark.index:
            message = f"{path[0]!r} is defined elsewhere in the file and only referred to here"
            raise InvalidParameters(message, "change it in the file")
        if found is None:
            _nest(self._new.setdefault(node.start_mark.index, (node, {}))[1], path, value)
        elif len(path) == 1:
            self.replace(found, repr(path[0]), str(value))
        elif isinstance(found, yaml.ScalarNode) and found.tag.endswith(":null"):
            _nest(self._new.setdefault(found.start_mark.index, (found, {}))[1], path[1:], value)
        elif isinstance(found, yaml.MappingNode):
            self.put(found, path[1:], value)
        # The check of the job file reports anything else in its place.

    def prepend(self, node: yaml.Node | None, texts: Iterable[str]) -> None:
        """Put texts before the first item of a list; once for a list that several places refer to."""
        import yaml

        if isinstance(node, yaml.SequenceNode):
            self._first[node.start_mark.index] = (node, tuple(texts))

    def edited(self) -> Edited:
        """Return the file with all edits made."""
        added = [self._added(node, keys) for node, keys in self._new.values()]
        added += [self._prepended(node, texts) for node, texts in self._first.values()]
        edits = sorted([*self._edits, *added], key=lambda edit: (edit.start, edit.end))
        sent, lines = _applied(self._text, edits)
        own, _ = _applied(self._text, [edit for edit in edits if not edit.is_new])
        return Edited(sent.encode(), own, lines)

    def _added(self, node: yaml.Node, keys: dict[str, Any]) -> _Edit:
        import yaml

        if not isinstance(node, yaml.MappingNode):
            return _Edit(node.start_mark.index, node.end_mark.index, f" {_json(keys)}")
        if node.flow_style:
            return self._in_braces(node, "{", _json(keys)[1:-1])
        return self._as_lines(node.value[0][0].start_mark.index, [f"{key}: {_json(keys[key])}" for key in keys])

    def _prepended(self, node: yaml.SequenceNode, texts: tuple[str, ...]) -> _Edit:
        if node.flow_style:
            return self._in_braces(node, "[", _json(texts)[1:-1])
        gap = _BEFORE_DASH.match(self._text, node.start_mark.index)
        at = gap.end() if gap else node.start_mark.index
        return self._as_lines(at, [f"- {_json(text)}" for text in texts])

    def _in_braces(self, node: Any, brace: str, text: str) -> _Edit:
        at = self._text.index(brace, node.start_mark.index) + 1
        return _Edit(at, at, f"{text}, " if node.value else text, is_new=True)

    def _as_lines(self, at: int, lines: Iterable[str]) -> _Edit:
        begin = self._text.rfind("\n", 0, at) + 1
        before = self._text[begin:at]
        if before.strip():
            indent = " " * len(before)
            return _Edit(at, at, "".join(f"{line}\n{indent}" for line in lines), is_new=True)
        return _Edit(begin, begin, "".join(f"{before}{line}\n" for line in lines), is_new=True)


def _nest(keys: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for key in path[:-1]:
        keys = keys.setdefault(key, {})
    keys[path[-1]] = value


def _applied(text: str, edits: Iterable[_Edit]) -> tuple[str, tuple[int | None, ...]]:
    """Return the text after edits in their order, and for each of its lines the line it was before."""
    parts: list[str] = []
    lines: list[int | None] = [None]
    line, at = 1, 0

    def keep(kept: str) -> None:
        nonlocal line
        for number, part in enumerate(kept.split("\n")):
            if number:
                line += 1
                lines.append(None)
            if part and lines[-1] is None:
                lines[-1] = line
        parts.append(kept)

    for edit in edits:
        keep(text[at : edit.start])
        parts.append(edit.text)
        lines.extend([None] * edit.text.count("\n"))
        line += text.count("\n", edit.start, edit.end)
        at = edit.end
    keep(text[at:])
    return "".join(parts), tuple(lines)


def _compose(text: str) -> yaml.Node | None:
    import yaml

    try:
        return next(iter(yaml.compose_all(text, Loader=yaml.SafeLoader)), None)
    except yaml.YAMLError as error:
        line = mark.line + 1 if (mark := getattr(error, "problem_mark", None)) else None
        where = f"line {line}: " if line else ""
        problem = getattr(error, "problem", None) or "not YAML"
        raise Refused(
            "InvalidProtocolError", f"the job file is not YAML: {where}{problem}", "correct it; nothing was submitted"
        ) from error


def child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    """Return the value of a key, or None."""
    import yaml

    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)


def keys_of(node: yaml.Node | None) -> list[str]:
    """Return the keys of a mapping."""
    import yaml

    return [str(name.value) for name, _ in node.value] if isinstance(node, yaml.MappingNode) else []


def scalar(text: str) -> str:
    """Return what a user typed as a value that YAML and JSON read alike: a number, a constant, or text."""
    import yaml

    value: Any = resolve(text)
    if text[:1] in ("'", '"'):
        with contextlib.suppress(yaml.YAMLError):
            value = yaml.safe_load(text)
    # Plain text stays as it was typed: YAML would fold its lines, or read it as a date or a list.
    return _json(value if isinstance(value, str | int | float) else text)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
