"""How a method of the client is written once and serves two clients, one that blocks and one that is awaited.

A method describes what to ask: one `Call`, a few `Steps`, or `Pages` of a list. It asks nothing itself. The mark over
it (`asks`, `proceeds`, `pages`) hands the description to whichever client it was called on, and has the type checker
see a value on a `Client` and a coroutine of it on an `AsyncClient`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import update_wrapper, wraps
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Protocol, Self, TypeVar, cast, overload

from openpai.protocol.errors import Broken, PaiError, Refused

if TYPE_CHECKING:
    import httpx

API: Final = "/api/v2"
HARMLESS_TWICE: Final = frozenset({"GET", "PUT"})

P = ParamSpec("P")
T = TypeVar("T")
Read = TypeVar("Read")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request below `/api/v2`, and how its answer is read."""

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    params: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool | None = None
    """Whether it may be sent again when its answer was lost; None: as is usual for the method."""
    base: str = API
    within_s: float | None = None
    """How long the answer may take, tries and pauses included; None: each try as long as the client waits."""

    @property
    def url(self) -> str:
        """Return the path from the server's root."""
        return f"{self.base}{self.path}"

    @property
    def is_harmless_twice(self) -> bool:
        """Return whether sending it again does no more than sending it once."""
        return self.method in HARMLESS_TWICE if self.is_repeatable is None else self.is_repeatable

    def sent(self) -> dict[str, Any]:
        """Return what httpx sends."""
        return {
            "method": self.method, "url": self.url, "params": self.params or None,
            "json": self.json, "content": self.content, "headers": self.headers,
        }  # fmt: skip

    def understood(self, response: httpx.Response) -> T:
        """Return what the answer says; raise Broken for one that makes no sense."""
        try:
            return self.read(response)
        except PaiError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            broken = Broken(f"the answer to {self.method} {self.url} makes no sense: {type(error).__name__}: {error}")
            broken.advice = f"is {response.request.url.copy_with(path='/', query=None)} an OpenPAI server?"
            raise broken from error


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait between two calls."""

    seconds: float


Steps = Generator["Call[Any] | Pause", Any, T]
"""Calls and pauses; each call's answer is sent back in, and what is returned at the end is the result."""


@dataclass(frozen=True, slots=True)
class Pages(Generic[T, Item]):
    """A list that is read page by page."""

    first: Call[T]
    items: Callable[[T], tuple[Item, ...]]
    after: Callable[[T], Call[T] | None]
    """What to ask after a page; None after the last one."""


class Blocking(Protocol):
    """A client that returns when it has the answer."""

    is_blocking: bool

    def ask(self, call: Call[Read]) -> Read:
        """Send one request and return what its answer says."""
        ...

    def proceed(self, steps: Steps[Read]) -> Read:
        """Carry out steps and return their result."""
        ...

    def each(self, pages: Pages[Any, Item]) -> Iterator[Item]:
        """Yield every item of every page."""
        ...


class Awaited(Protocol):
    """A client whose answers are awaited."""

    is_awaited: bool

    def ask(self, call: Call[Read]) -> Coroutine[Any, Any, Read]:
        """Send one request and return what its answer says."""
        ...

    def proceed(self, steps: Steps[Read]) -> Coroutine[Any, Any, Read]:
        """Carry out steps and return their result."""
        ...

    def each(self, pages: Pages[Any, Item]) -> AsyncIterator[Item]:
        """Yield every item of every page."""
        ...


class _Mark(Generic[P, T]):
    """Keeps a description, and looks like the method it is on the class."""

    def __init__(self, describe: Callable[..., Any]) -> None:
        self.describe = describe
        update_wrapper(cast("Any", self), describe)

    def __call__(self, here: Any, *args: P.args, **named: P.kwargs) -> Any:
        return self.__get__(here, type(here))(*args, **named)

    def __get__(self, here: Any, owner: type) -> Any:
        raise NotImplementedError


class asks(_Mark[P, T]):  # noqa: N801 - a mark above a method, as `property` is
    """Marks a method that describes one call."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Call[T]]) -> None:
        super().__init__(describe)

    @overload
    def __get__(self, here: None, owner: type) -> Self: ...
    @overload
    def __get__(self, here: Blocking, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, here: Awaited, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, here: Any, owner: type) -> Any:
        return self if here is None else _bound(self.describe, here, here.ask)


class proceeds(_Mark[P, T]):  # noqa: N801
    """Marks a method that describes several calls in a row, such as asking until a job is over."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        super().__init__(describe)

    @overload
    def __get__(self, here: None, owner: type) -> Self: ...
    @overload
    def __get__(self, here: Blocking, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, here: Awaited, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, here: Any, owner: type) -> Any:
        return self if here is None else _bound(self.describe, here, here.proceed)


class pages(_Mark[P, Item]):  # noqa: N801
    """Marks a method that describes a list that is read page by page."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Pages[Any, Item]]) -> None:
        super().__init__(describe)

    @overload
    def __get__(self, here: None, owner: type) -> Self: ...
    @overload
    def __get__(self, here: Blocking, owner: type) -> Callable[P, Iterator[Item]]: ...
    @overload
    def __get__(self, here: Awaited, owner: type) -> Callable[P, AsyncIterator[Item]]: ...
    def __get__(self, here: Any, owner: type) -> Any:
        return self if here is None else _bound(self.describe, here, here.each)


def _bound(describe: Callable[..., Any], here: Any, hand_over: Callable[[Any], Any]) -> Callable[..., Any]:
    method = MethodType(describe, here)

    @wraps(method)
    def asked(*args: Any, **named: Any) -> Any:
        return hand_over(method(*args, **named))

    return asked


def whole(read: Callable[[Mapping[str, Any]], T]) -> Callable[[httpx.Response], T]:
    """Return a reader for an answer that is one document."""
    return lambda response: read(response.json())


def listed(read: Callable[[Mapping[str, Any]], T], key: str | None = None) -> Callable[[httpx.Response], tuple[T, ...]]:
    """Return a reader for an answer that is a list of documents, or has it under `key`."""

    def of(response: httpx.Response) -> tuple[T, ...]:
        answer = response.json()
        return tuple(read(document) for document in (answer if key is None else answer[key]))

    return of


def nothing(response: httpx.Response) -> None:
    """Read nothing: that it was granted is all there is to know."""


def as_it_came(response: httpx.Response) -> Any:
    """Return the answer's JSON as it came."""
    return response.json()


def as_text(response: httpx.Response) -> str:
    """Return the answer's text."""
    return response.text


def known(where: Mapping[str, object], filters: type, of: str) -> None:
    """Raise Refused for a filter there is not: the API takes no notice of one, and everything would match."""
    if strange := sorted(where.keys() - filters.__annotations__.keys()):
        message = f"{strange[0]!r} is no filter of {of}"
        raise Refused("InvalidParametersError", message, f"use {', '.join(filters.__annotations__)}")


def said(**params: Any) -> dict[str, str]:
    """Return the parameters that say something, as they are written in a query; lists become comma lists."""
    written = {}
    for key, value in params.items():
        if value is None or value == "" or value == ():
            continue
        if isinstance(value, bool):
            written[key] = "true" if value else "false"
        elif isinstance(value, (tuple, list, set, frozenset)):
            written[key] = ",".join(map(str, value))
        else:
            written[key] = str(value)
    return written


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields of a body that are not None."""
    return {
        key: list(value) if isinstance(value, tuple) else value for key, value in fields.items() if value is not None
    }
