"""Parses the text of a job file into plain values, and records the line of each.

YAML and JSON (with `//` comments, as in old job files) are read by one event-driven builder, with the rules of YAML
1.2: `on`, `yes` and `007` are text, keys are always text. It refuses what only an attacker needs: deep nesting, aliases
that expand enormously, tags that create objects.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import yaml

from openpai.protocol.dialect import as_yaml, is_json, resolve
from openpai.protocol.errors import Fault, InvalidProtocol
from openpai.protocol.syntax import TOO_DEEP, character_fault, syntax_fault
from openpai.protocol.wording import cut

DEPTH_MAX: Final = 64
_IS_TOO_DEEP: Final = f"is nested deeper than {DEPTH_MAX} levels"
EXPANDED_MAX: Final = 4 * 1024 * 1024
"""The limit on the characters of a file with its aliases expanded."""

PATH_SHOWN_MAX: Final = 8
PATH_TEXT_MAX: Final = 400
NOTED_MAX: Final = 200
"""The number of faults after which reading stops."""

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG: Final = "tag:yaml.org,2002:"
_SCALAR_TAGS: Final = frozenset(_TAG + name for name in ("int", "float", "bool", "null"))
_CONTAINER_TAGS: Final = frozenset({None, "!", _TAG + "map", _TAG + "seq"})
_STRANGE_TAG: Final = "has a tag that a job file may not use; a text that begins with ! needs quotes"

# The key of a merge, which no file can contain; a quoted "<<" is an ordinary key.
_MERGE: Final = "<<\0"

Path = tuple[str | int, ...]
"""Keys and list indices from the top of a document to a place in it."""


def path_text(path: Path) -> str:
    """Return a path as people write it: `prerequisites[0].uri`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return cut(text, PATH_TEXT_MAX)


@dataclass(frozen=True, slots=True)
class Lines:
    """The line of each value of a document."""

    root: Any
    by_container: dict[int, dict[str, int] | list[int]]
    """Lines of a container's entries, by the container's identity (which `root` keeps alive)."""

    def line_of(self, path: Path) -> int | None:
        """Return the line of the value at `path`, or of the nearest container of it in the file."""
        value, line = self.root, None
        for step in path:
            lines: Any = self.by_container.get(id(value))
            try:
                line, value = lines[step], value[step]
            except (KeyError, IndexError, TypeError):
                break
        return line

    def first(self) -> int | None:
        """Return the line of the first entry; None for a single value."""
        lines: Any = self.by_container.get(id(self.root), ())
        return min(lines.values() if isinstance(lines, dict) else lines, default=None)


@dataclass(frozen=True, slots=True)
class Parsed:
    """Every document of a file, with faults that did not prevent reading it (repeated keys, unknown tags)."""

    documents: tuple[Any, ...]
    lines: tuple[Lines, ...]
    faults: tuple[Fault, ...]


def parse(text: str) -> Parsed:
    """Return the values in a YAML or JSON text; raise InvalidProtocol if it is neither."""
    source = as_yaml(text) if is_json(text) else text
    builder = _Builder()
    try:
        _take_all(source, builder)
    except yaml.MarkedYAMLError as error:
        if error.problem == TOO_DEEP and error.problem_mark is not None:
            fault = Fault("", f"the file {_IS_TOO_DEEP}", error.problem_mark.line + 1)
        else:
            fault = syntax_fault(error, text)
        raise InvalidProtocol((fault,)) from error
    except yaml.reader.ReaderError as error:
        raise InvalidProtocol((character_fault(error.character, source),)) from error
    except UnicodeEncodeError as error:
        raise InvalidProtocol((character_fault(error.object[error.start], source),)) from error
    return Parsed(
        tuple(builder.documents),
        tuple(Lines(document, builder.lines) for document in builder.documents),
        tuple(builder.faults),
    )


def _take_all(source: str, builder: _Builder) -> None:
    loader = _LOADER(source)
    try:
        # `yaml.parse` asks before each event whether there is one, which is as much work again.
        while (event := loader.get_event()) is not None:
            builder.take(event)
    finally:
        loader.dispose()


@dataclass(slots=True)
class _Open:
    """A list or mapping that is being filled."""

    items: Any
    lines: Any
    at: str | int
    """Its key or index in its container."""
    anchor: str | None
    weight_before: int
    key: str | None = None
    merged: set[str] = field(default_factory=set)
    """Keys from `<<`, which the mapping's own keys may replace."""


class _Builder:
    """Processes parser events one by one, without recursion, so no file can exhaust the stack."""

    def __init__(self) -> None:
        self.documents: list[Any] = []
        self.lines: dict[int, dict[str, int] | list[int]] = {}
        self.faults: list[Fault] = []
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._weight = 0

    def take(self, event: Any) -> None:
        kind = type(event)
        if kind is yaml.ScalarEvent:
            self._weight += len(event.value) + 1
            if self._weight > EXPANDED_MAX:
                self._weigh(0, event)
            self._scalar(event)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            self._begin(event, is_mapping=kind is yaml.MappingStartEvent)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            self._end(event)
        elif kind is yaml.AliasEvent:
            self._alias(event)
        elif kind is yaml.DocumentStartEvent:
            self._anchors.clear()

    def _scalar(self, event: Any) -> None:
        text = event.value
        owner = self._open[-1] if self._open else None
        if owner is not None and owner.key is None and type(owner.items) is dict and event.tag is None:
            value = _MERGE if text == "<<" and event.implicit[0] else text
        else:
            value = self._value(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, len(text) + 1)
        self._put(value, event)

    def _value(self, event: Any) -> Any:
        if event.tag is None or event.tag == "!":
            return resolve(event.value) if event.implicit[0] else event.value
        if event.tag in _SCALAR_TAGS:
            return resolve(event.value)
        if event.tag != _TAG + "str":
            self._note(event, _STRANGE_TAG)
        return event.value

    def _begin(self, event: Any, is_mapping: bool) -> None:
        if len(self._open) >= DEPTH_MAX:
            self._refuse(event, _IS_TOO_DEEP)
        if event.tag not in _CONTAINER_TAGS:
            self._note(event, _STRANGE_TAG)
        if self._open and self._open[-1].key is None and type(self._open[-1].items) is dict:
            self._refuse(event, "uses a list or mapping as a key; a key is text")
        items: Any = {} if is_mapping else []
        lines: Any = {} if is_mapping else []
        self.lines[id(items)] = lines
        at = self._step()
        self._put(items, event, is_filled=False)
        self._open.append(_Open(items, lines, at, event.anchor, self._weight))

    def _end(self, event: Any) -> None:
        done = self._open.pop()
        if done.anchor is not None:
            self._anchors[done.anchor] = (done.items, self._weight - done.weight_before)
        if self._open and self._open[-1].key is _MERGE:
            self._merge(self._open[-1], done.items, event)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            is_open = any(one.anchor == event.anchor for one in self._open)
            # It may be a secret, so do not repeat it.
            why = "is a list or mapping that contains itself" if is_open else "refers to an anchor that is not there"
            self._note(event, f"{why}; a text that begins with * needs quotes")
            self._put(f"*{event.anchor}", event)
            return
        value, weight = self._anchors[event.anchor]
        self._weigh(weight, event)
        self._put(value, event)

    def _put(self, value: Any, event: Any, is_filled: bool = True) -> None:
        if not self._open:
            self.documents.append(value)
            return
        owner = self._open[-1]
        line = event.start_mark.line + 1
        if type(owner.items) is list:
            owner.items.append(value)
            owner.lines.append(line)
        elif owner.key is None:
            self._key(owner, value, event, line)
        elif owner.key is _MERGE:
            # An inline mapping is merged when it is complete; until then the key stays pending.
            if is_filled:
                self._merge(owner, value, event)
        else:
            owner.items[owner.key] = value
            owner.key = None

    def _key(self, owner: _Open, key: Any, event: Any, line: int) -> None:
        if isinstance(key, (dict, list)):
            self._refuse(event, "uses a list or mapping as a key; a key is text")
        owner.key = key if isinstance(key, str) else str(key)
        if owner.key in owner.merged:
            owner.merged.discard(owner.key)
        elif owner.key in owner.lines:
            self._note(event, f"is given twice, first on line {owner.lines[owner.key]}", "each key once")
        if owner.key is not _MERGE:
            owner.lines[owner.key] = line

    def _merge(self, owner: _Open, value: Any, event: Any) -> None:
        owner.key = None
        for source in value if type(value) is list else [value]:
            if type(source) is not dict:
                self._note(event, "<< takes a mapping, or a list of mappings")
                continue
            for key, entry in source.items():
                if key not in owner.items:
                    owner.items[key] = entry
                    owner.lines[key] = event.start_mark.line + 1
                    owner.merged.add(key)

    def _weigh(self, weight: int, event: Any) -> None:
        self._weight += weight
        if self._weight > EXPANDED_MAX:
            self._refuse(event, f"makes the file larger than {EXPANDED_MAX // 2**20} MiB through its aliases")

    def _step(self) -> str | int:
        if not self._open:
            return ""
        owner = self._open[-1]
        if type(owner.items) is list:
            return len(owner.items)
        return "<<" if owner.key is _MERGE else owner.key or ""

    def _path(self) -> Path:
        return tuple(step for step in (*(one.at for one in self._open), self._step()) if step != "")

    def _note(self, event: Any, message: str, allowed: str = "") -> None:
        self.faults.append(Fault(path_text(self._path()), message, event.start_mark.line + 1, allowed))
        if len(self.faults) >= NOTED_MAX:
            raise InvalidProtocol((*self.faults, Fault("", "and more faults, reported once these are fixed")))

    def _refuse(self, event: Any, message: str) -> NoReturn:
        path = path_text(self._path()[:PATH_SHOWN_MAX])
        raise InvalidProtocol((*self.faults, Fault(path, message, event.start_mark.line + 1)))
