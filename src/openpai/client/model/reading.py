"""Reads the server's documents into values: each field names the key that it is read from.

A missing value or one of another type becomes an empty value, never an error: newer and older servers may send more or
fewer keys. The keys are those of the types in `openpai.wire`; a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cache
from typing import Any, Final, Self, TypeVar, cast

Document = Mapping[str, Any]
SOURCE: Final = "source"
"""The key of a field's `Source` in its metadata."""
A = TypeVar("A", bound="Answer")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Source:
    """The place of a field's value in a document, and its conversion."""

    paths: tuple[tuple[str, ...], ...]
    """The first path that exists is used; without paths, the whole document."""
    convert: Callable[[Any], Any]
    is_needed: bool = False
    kind: object = None
    """The class that parts are read into, if any."""

    @property
    def only_key(self) -> str | None:
        """Return the key, if one key and a conversion are all; else None."""
        is_plain = len(self.paths) == 1 and len(self.paths[0]) == 1 and not self.is_needed
        return self.paths[0][0] if is_plain else None

    def find(self, document: Document) -> Any:
        """Return the value in a document; raise KeyError if it is needed and missing."""
        if not self.paths:
            return self.convert(document)
        for path in self.paths:
            found: Any = document
            for key in path:
                if not isinstance(found, Mapping) or key not in found:
                    break
                found = found[key]
            else:
                return self.convert(found)
        if self.is_needed:
            raise KeyError(".".join(self.paths[0]))
        return self.convert(None)


class Answer:
    """A value that is read from a document, field by field."""

    __slots__ = ()

    @classmethod
    def read(cls, document: Document, **given: Any) -> Self:
        """Return the value of a document; `given` are fields that it does not have."""
        if not isinstance(document, Mapping):
            raise TypeError(f"{document!r:.40} is no object")
        # Nearly every field is a single key, and lists have thousands of documents.
        found = {
            name: source.find(document) if key is None else source.convert(document.get(key))
            for name, key, source in _sources(cast("Hashable", cls))
        }
        return cls(**found, **given)


@cache
def _sources(kind: Any) -> tuple[tuple[str, str | None, Source], ...]:
    """Return the fields to read, each with its key if it is a single key."""
    found = [(each.name, each.metadata[SOURCE]) for each in fields(kind) if SOURCE in each.metadata]
    return tuple((name, source.only_key, source) for name, source in found)


def value(*keys: str, convert: Callable[[Any], T], repr: bool = True) -> T:  # noqa: A002 - as `field` calls it
    """Declare a field that is read from the first of `keys` that exists; dots lead into inner documents."""
    declared: T = _declared(Source(_paths(keys), convert), repr=repr)
    return declared


def needed(key: str, kind: type[T], *, repr: bool = True) -> T:  # noqa: A002
    """Declare a value without which the answer is invalid."""
    source = Source(_paths((key,)), kind, is_needed=True)
    declared: T = field(default_factory=kind, repr=repr, metadata={SOURCE: source})
    return declared


def text(*keys: str) -> str:
    """Declare a text, empty if missing."""
    return value(*keys, convert=as_text)


def number(*keys: str) -> int | None:
    """Declare a whole number, None for anything else."""
    return value(*keys, convert=as_number)


def amount(*keys: str) -> int:
    """Declare a whole number, 0 for anything else."""
    return value(*keys, convert=as_amount)


def real(*keys: str) -> float:
    """Declare a number, 0.0 for anything else."""
    return value(*keys, convert=as_real)


def measured(*keys: str) -> float | None:
    """Declare a number that may not be known, None for anything else."""
    return value(*keys, convert=_as_measured)


def _as_measured(found: Any) -> float | None:
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None


def flag(*keys: str) -> bool:
    """Declare a truth value, False if missing."""
    return value(*keys, convert=bool)


def texts(*keys: str) -> tuple[str, ...]:
    """Declare a list of texts, empty for anything else."""
    return value(*keys, convert=as_texts)


def amounts(*keys: str) -> tuple[int, ...]:
    """Declare a list of whole numbers, empty if missing."""
    return value(*keys, convert=lambda found: tuple(map(as_amount, found or ())))


def mapping(*keys: str, repr: bool = True) -> Mapping[str, Any]:  # noqa: A002
    """Declare an object of any keys, empty if missing."""
    return value(*keys, convert=_as_mapping, repr=repr)


def part(kind: type[A], *keys: str, is_needed: bool = False) -> A:
    """Declare an inner value; one without keys is read from the same document."""
    declared: A = _declared(Source(_paths(keys), lambda found: kind.read(_as_mapping(found)), is_needed, kind))
    return declared


def parts(kind: type[A], key: str, *, is_needed: bool = False) -> tuple[A, ...]:
    """Declare a list of inner values, empty if missing unless it is needed."""
    source = Source(_paths((key,)), lambda found: tuple(map(kind.read, found or ())), is_needed, kind)
    declared: tuple[A, ...] = _declared(source)
    return declared


def part_if_any(kind: type[A], key: str) -> A | None:
    """Declare an inner value, None if missing."""
    source = Source(_paths((key,)), lambda found: None if found is None else kind.read(found), kind=kind)
    declared: A | None = _declared(source)
    return declared


def whole() -> Document:
    """Declare the field that holds the unchanged document."""
    source = Source((), lambda found: found)
    declared: Document = field(default_factory=dict, repr=False, compare=False, metadata={SOURCE: source})
    return declared


def _declared(source: Source, *, repr: bool = True) -> Any:  # noqa: A002
    return field(default_factory=lambda: source.convert(None), repr=repr, metadata={SOURCE: source})


def _paths(keys: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(key.split(".")) for key in keys)


def as_text(value: Any) -> str:
    """Return a value as text, empty for None."""
    return "" if value is None else str(value)


def as_text_if_any(value: Any) -> str | None:
    """Return a value as text, or None."""
    return None if value is None else str(value)


def as_number(value: Any) -> int | None:
    """Return a whole number, or None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_moment(value: Any) -> int | None:
    """Return a time written as in 2026-01-31T12:00:00.000Z in milliseconds since 1970, or None for anything else."""
    try:
        return round(datetime.fromisoformat(value).timestamp() * 1000)
    except (TypeError, ValueError):
        return None


def as_amount(value: Any) -> int:
    """Return a whole number, 0 for anything else."""
    return as_number(value) or 0


def as_real(value: Any) -> float:
    """Return a number, 0.0 for anything else."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0


def as_real_if_any(value: Any) -> float | None:
    """Return a number, 0.0 for anything else but None, which stays None."""
    return None if value is None else as_real(value)


def as_texts(value: Any) -> tuple[str, ...]:
    """Return a list of texts, empty for anything else."""
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
