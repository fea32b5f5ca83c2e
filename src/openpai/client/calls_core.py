"""Lets one method serve two clients, one that blocks and one that is awaited.

A method returns a `Call`, which describes one request, or is a coroutine or an asynchronous generator over the
client's connection. Its decorator (`asks`, `awaits`, `iterates`) hands that to the client of the call; type checkers
see a value on a `Client` and a coroutine of it on an `AsyncClient`. Over a blocking connection no coroutine ever
suspends, so `finished` and `iterated` run them without an event loop.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import update_wrapper, wraps
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Protocol, Self, TypeVar, cast, overload

from openpai.protocol.errors import Broken, InvalidParameters, PaiError

if TYPE_CHECKING:
    import httpx

API: Final = "/api/v2"
HARMLESS_TWICE: Final = frozenset({"GET", "PUT"})

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request below `/api/v2`, with the reader of its answer."""

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    params: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    """The parameters of its query; a list is one that is given several times."""
    json: Any = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool | None = None
    """Whether it may be sent again if its answer was lost; None: as usual for the HTTP method."""
    base: str = API
    within_s: float | None = None
    """How long the answer may take, with all tries and pauses; None: the client's limit for each try."""

    @property
    def url(self) -> str:
        """Return the path from the server's root."""
        return f"{self.base}{self.path}"

    @property
    def is_harmless_twice(self) -> bool:
        """Return whether the request is idempotent."""
        return self.method in HARMLESS_TWICE if self.is_repeatable is None else self.is_repeatable

    def sent(self) -> dict[str, Any]:
        """Return what httpx sends."""
        return {
            "method": self.method, "url": self.url, "params": self.params or None,
            "json": self.json, "content": self.content, "headers": self.headers,
        }  # fmt: skip

    def understood(self, response: httpx.Response) -> T:
        """Return the value of the answer; raise Broken for an invalid answer."""
        try:
            return self.read(response)
        except PaiError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            broken = Broken(f"the answer to {self.method} {self.url} makes no sense: {type(error).__name__}: {error}")
            broken.advice = f"is {response.request.url.copy_with(path='/', query=None)} an OpenPAI server?"
            raise broken from error


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("a coroutine over a blocking connection suspended")


def iterated(items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Yield the items of a generator that never suspends."""
    try:
        while True:
            try:
                item = finished(anext(items))
            except StopAsyncIteration:
                return
            yield item
    finally:
        finished(items.aclose())


class Blocking(Protocol):
    """A client that blocks until it has the answer."""

    is_blocking: bool


class Awaited(Protocol):
    """A client whose answers are awaited."""

    is_awaited: bool


class _Mark(Generic[P, T]):
    """Holds a method written for both clients, and looks like it on its class."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        update_wrapper(cast("Any", self), method)

    def __call__(self, here: Any, *args: P.args, **named: P.kwargs) -> Any:
        return self.__get__(here, type(here))(*args, **named)

    def __get__(self, here: Any, owner: type) -> Any:
        raise NotImplementedError

    def bound(self, here: Any, drive: Callable[[Any], Any]) -> Callable[..., Any]:
        """Return the method of a client; that of a blocking one drives what it returns to its end."""
        method = MethodType(self.method, here)
        if not hasattr(here, "is_blocking"):
            return method

        @wraps(method)
        def driven(*args: Any, **named: Any) -> Any:
            return drive(method(*args, **named))

        return driven


class awaits(_Mark[P, T]):  # noqa: N801 - a mark above a method, as `property` is
    """Marks a coroutine of several calls, such as polling until a job is finished."""

    def __init__(self, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        super().__init__(method)

    @overload
    def __get__(self, here: None, owner: type) -> Self: ...
    @overload
    def __get__(self, here: Blocking, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, here: Awaited, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, here: Any, owner: type) -> Any:
        return self if here is None else self.bound(here, finished)


class asks(awaits[P, T]):  # noqa: N801
    """Marks a method that describes one call."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Call[T]]) -> None:
        def ask(here: Any, /, *args: P.args, **named: P.kwargs) -> Coroutine[Any, Any, T]:
            answer: Coroutine[Any, Any, T] = here.wire.ask(describe(here, *args, **named))
            return answer

        update_wrapper(ask, describe)
        super().__init__(ask)


class iterates(_Mark[P, T]):  # noqa: N801
    """Marks an asynchronous generator, such as a list that is read page by page."""

    def __init__(self, method: Callable[Concatenate[Any, P], AsyncGenerator[T, None]]) -> None:
        super().__init__(method)

    @overload
    def __get__(self, here: None, owner: type) -> Self: ...
    @overload
    def __get__(self, here: Blocking, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, here: Awaited, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, here: Any, owner: type) -> Any:
        return self if here is None else self.bound(here, iterated)


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
    """Ignore the body of an answer."""


def as_it_came(response: httpx.Response) -> Any:
    """Return the answer's JSON as it came."""
    return response.json()


def as_text(response: httpx.Response) -> str:
    """Return the answer's text."""
    return response.text


def known(where: Mapping[str, object], filters: type, of: str) -> None:
    """Raise Refused for an unknown filter: the API would ignore it, and everything would match."""
    if strange := sorted(where.keys() - filters.__annotations__.keys()):
        message = f"{strange[0]!r} is not a filter of {of}"
        raise InvalidParameters(message, f"use {', '.join(filters.__annotations__)}")


def query_of(**params: Any) -> dict[str, str]:
    """Return the parameters that are not empty, as text for a query; lists become comma lists."""
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
