"""Declares routes together with what the API's description says of each besides its parameters.

FastAPI reads the parameters from the route function. The type of the answer is in the function's return annotation, a
`Reply` of a type of `openpai.wire`, so mypy checks it against what the function returns; the tests validate every
answer against it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast, get_args, get_origin, get_type_hints

from fastapi import APIRouter

from openpai.api.answers import Reply
from openpai.api.bodies import Body, taken
from openpai.protocol.spelling import camel_case

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
Takes = type[Body] | Mapping[str, Any] | Callable[[], Mapping[str, Any]]
"""The body of a request, its part of the description, or what returns that."""
_NONE: Final[Mapping[str, Any]] = {}
_CONVERTOR: Final = re.compile(r":\w+\}")


@dataclass(frozen=True, slots=True)
class Operation:
    """What the description says of an operation besides its parameters, name and summary."""

    endpoint: Callable[..., Any]
    errors: str = ""
    """Names of the errors it may return, besides those that follow from its parameters and permission."""
    media: Mapping[str, Any] = field(default_factory=dict)
    """Other content types of the answer, each with an example."""
    example: Any = None
    """An example of a body, if the examples of its fields do not make one."""
    statuses: Mapping[str, str] = field(default_factory=dict)
    """Other statuses, each with its meaning."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of the answer, each with its meaning."""

    @property
    def answer(self) -> Any:
        """Return the type of the JSON document in the answer; None if there is none."""
        returned = get_type_hints(self.endpoint, include_extras=True)["return"]
        found = [one for one in (returned, *get_args(returned)) if get_origin(one) is Reply]
        return get_args(found[0])[0] if found else None


class Router(APIRouter):
    """The routes of a noun; each is also served below the older prefix of its path, if `aliases` has one.

    `written` is the status of an answer to a PUT or POST.
    """

    def __init__(self, tag: str, aliases: Mapping[str, str] = _NONE, *, written: int = 200) -> None:
        super().__init__(tags=[tag])
        self.operations: dict[str, Operation] = {}
        self._bodies: list[tuple[dict[str, Any], Takes]] = []
        """What is added to the description of operations, and the bodies that they read."""
        self._aliases = aliases
        self._written = written

    def describe_bodies(self) -> None:
        """Add to the routes what the description says of the bodies that they read.

        It is not worked out when they are declared: the description is seldom asked for, and a start should not wait.
        """
        for described, takes in self._bodies:
            described |= _body(takes)

    def serves(
        self,
        operation: str,
        summary: str = "",
        errors: str = "",
        *,
        takes: Takes | None = None,
        status: int | None = None,
        success: str = "",
        id_: str = "",
        also: str = "",
        tags: tuple[str, ...] = (),
        deprecated: bool = False,
        **described: Any,
    ) -> Callable[[Endpoint], Endpoint]:
        """Declare the route of an operation, as `GET /path`; one without a summary is left out of the description.

        `takes` is the body it reads, `also` another path, and `described` are fields of `Operation`. The name of the
        function is the operation's name, unless `id_` is.
        """
        method, _, path = operation.partition(" ")
        older = [
            alias + path.removeprefix(prefix) for prefix, alias in self._aliases.items() if path.startswith(prefix)
        ]
        body: dict[str, Any] = {}
        if takes is not None:
            self._bodies.append((body, takes))
        if isinstance(takes, type):
            described.setdefault("example", cast("type[Body]", takes).example)

        def add(endpoint: Endpoint) -> Endpoint:
            if summary:
                self.operations[_CONVERTOR.sub("}", operation)] = Operation(endpoint, errors, **described)
            for place in (path, *older, *filter(None, [also])):
                self.add_api_route(
                    place,
                    endpoint,
                    methods=[method],
                    # The routes encode their answers themselves.
                    response_model=None,
                    status_code=status or (self._written if method in ("PUT", "POST") else 200),
                    tags=list(tags),
                    summary=summary,
                    response_description=success or summary,
                    operation_id=id_ or camel_case(endpoint.__name__),
                    openapi_extra=body,
                    include_in_schema=bool(summary) and place == path,
                    deprecated=deprecated or None,
                )
            return endpoint

        return add


def _body(takes: Takes) -> Mapping[str, Any]:
    if isinstance(takes, type):
        return taken(cast("type[Body]", takes))
    return takes() if callable(takes) else takes
