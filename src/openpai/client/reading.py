"""Reads the server's documents into values: each field of an `Answer` names the key that it is read from.

A missing value or one of another type becomes an empty value, never an error: newer and older servers may send more or
fewer keys. A field is read when it is asked for, so a list of thousands of documents costs nothing until it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Generic, NoReturn, Self, TypeVar, cast

Document = Mapping[str, Any]
A = TypeVar("A", bound="Answer")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LogPiece:
    """A piece of one stream of a task's log, beginning at byte `offset` of it."""

    stream: str
    offset: int
    text: str


class Field(Generic[T]):
    """The place of a value in a document, and its conversion."""

    def __init__(self, path: tuple[str, ...], convert: Callable[[Any], T], *, is_secret: bool = False) -> None:
        self.path, self.convert, self.is_secret = path, convert, is_secret

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, here: Answer | None, owner: type) -> Any:
        if here is None:
            return self
        value = here.__dict__[self.name] = self.convert(_found(here.document, self.path))
        return value


def _found(document: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


class Answer:
    """A frozen value that is read from a document; `document` is all that the server sent."""

    document: Document
    needed: tuple[str, ...] = ()
    """Keys without which a document makes no sense."""

    def __init__(self, **values: Any) -> None:
        declared = {name for base in type(self).__mro__ for name in vars(base).get("__annotations__", ())}
        if unknown := values.keys() - self._fields().keys() - declared:
            raise TypeError(f"{type(self).__name__} has no field {min(unknown)!r}")
        self.__dict__.update(values, document={})

    @classmethod
    def read(cls, document: Document, **given: Any) -> Self:
        """Return the value of a document; `given` are fields that it does not have."""
        if not isinstance(document, Mapping):
            raise TypeError(f"{document!r:.40} is no object")
        for key in cls.needed:
            if document.get(key) is None:
                raise KeyError(key)
        here = object.__new__(cls)
        here.__dict__.update(given, document=document)
        return here

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is read-only")

    @classmethod
    @cache
    def _fields(cls) -> Mapping[str, Field[Any]]:
        declared = [each for base in reversed(cls.__mro__) for each in vars(base).values()]
        return {each.name: each for each in declared if isinstance(each, Field)}

    def _values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._fields()}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._values() == self._values()

    def __hash__(self) -> int:
        return hash(tuple(self._values().values()))

    def __repr__(self) -> str:
        shown = [f"{name}={getattr(self, name)!r}" for name, each in self._fields().items() if not each.is_secret]
        return f"{type(self).__name__}({', '.join(shown)})"


def _declared(path: tuple[str, ...], convert: Callable[[Any], T], *, is_secret: bool = False) -> T:
    """Declare a field; type checkers see its value."""
    return cast("T", Field(path, convert, is_secret=is_secret))


def text(*path: str, is_secret: bool = False) -> str:
    """Declare a text, empty if missing; a secret is not printed with the value."""
    return _declared(path, as_text, is_secret=is_secret)


def text_if_any(*path: str) -> str | None:
    """Declare a text, None if missing."""
    return _declared(path, lambda found: None if found is None else str(found))


def number(*path: str) -> int | None:
    """Declare a whole number, None for anything else."""
    return _declared(path, as_number)


def amount(*path: str) -> int:
    """Declare a whole number, 0 for anything else."""
    return _declared(path, as_amount)


def real(*path: str) -> float:
    """Declare a number, 0.0 for anything else."""
    return _declared(path, lambda found: _as_measured(found) or 0.0)


def measured(*path: str) -> float | None:
    """Declare a number that may not be known, None for anything else."""
    return _declared(path, _as_measured)


def flag(*path: str) -> bool:
    """Declare a truth value, False if missing."""
    return _declared(path, bool)


def texts(*path: str) -> tuple[str, ...]:
    """Declare a list of texts, empty for anything else."""
    return _declared(path, lambda found: tuple(map(str, _as_list(found))))


def amounts(*path: str) -> tuple[int, ...]:
    """Declare a list of whole numbers, empty for anything else."""
    return _declared(path, lambda found: tuple(map(as_amount, _as_list(found))))


def measures(*path: str) -> tuple[float | None, ...]:
    """Declare a list of numbers, None for what is no number."""
    return _declared(path, lambda found: tuple(map(_as_measured, _as_list(found))))


def mapping(*path: str, is_secret: bool = False) -> Mapping[str, Any]:
    """Declare an object of any keys, empty if missing."""
    return _declared(path, _as_mapping, is_secret=is_secret)


def mapping_if_any(*path: str) -> Mapping[str, Any] | None:
    """Declare an object of any keys, None if missing."""
    return _declared(path, lambda found: found if isinstance(found, Mapping) else None)


def anything(*path: str) -> Any:
    """Declare a value of any type."""
    return _declared(path, lambda found: found)


def part(kind: type[A], *path: str) -> A:
    """Declare an inner value, an empty one if missing; one without keys is read from the same document."""
    return _declared(path, lambda found: kind.read(_as_mapping(found)))


def part_if_any(kind: type[A], *path: str) -> A | None:
    """Declare an inner value, None if missing."""
    return _declared(path, lambda found: kind.read(found) if isinstance(found, Mapping) else None)


def parts(kind: type[A], *path: str) -> tuple[A, ...]:
    """Declare a list of inner values, empty if missing."""
    return _declared(path, lambda found: tuple(kind.read(each) for each in _as_list(found)))


def named_parts(kind: type[A], *path: str) -> Mapping[str, A]:
    """Declare inner values by their names, none if missing."""
    return _declared(path, lambda found: {name: kind.read(each) for name, each in _as_mapping(found).items()})


def grouped(kind: type[A], path: str, inner: str, name: str) -> tuple[A, ...]:
    """Declare the values of the lists `inner` in objects by name, each with that name in its field `name`."""

    def read(found: Any) -> tuple[A, ...]:
        groups = _as_mapping(found).items()
        return tuple(kind.read(each, **{name: of}) for of, group in groups for each in _as_list(group.get(inner)))

    return _declared((path,), read)


def moment(*path: str) -> int | None:
    """Declare a time written as in 2026-01-31T12:00:00.000Z, in milliseconds since 1970; None for anything else."""
    return _declared(path, as_moment)


def as_text(value: Any) -> str:
    """Return a value as text, empty for None."""
    return "" if value is None else str(value)


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


def _as_measured(found: Any) -> float | None:
    return found if isinstance(found, (int, float)) and not isinstance(found, bool) else None


def _as_list(value: Any) -> list[Any] | tuple[Any, ...]:
    return value if isinstance(value, (list, tuple)) else ()


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
