"""A request finds the same route among those that begin like its path as among all of the API."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
from fastapi import APIRouter
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import Message

from openpai.api.app import described_api
from openpai.api.route_index import RouteIndex
from openpai.api.shell_sockets import add_sockets

ODD: Final = (
    "/", "//", "/api", "/api/", "/api/v2", "/api/v2/", "/api/v2/nothing", "/api/v2/jobs/", "//api/v2/jobs",
    "/api/v2/jobs//x", "/api/v2/jobs/a/b/c/d/e", "/API/v2/jobs", "/healthz/", "/static-offline-docs/a/b",
    "/static-offline-docs", "/api/v3/jobs", "/prometheus/api/v1/query", "/v1/inspect/clusterstatus/x/y/z",
)  # fmt: skip


def fitting(routes: list[BaseRoute], path: str, kind: str, method: str) -> list[tuple[BaseRoute, Match]]:
    """Return the routes that fit a path, each with whether it takes the method."""
    scope: dict[str, Any] = {"type": kind, "path": path, "method": method, "headers": []}
    found = [(route, route.matches(scope)[0]) for route in routes]
    return [(route, match) for route, match in found if match is not Match.NONE]


def test_for_each_path_of_the_api() -> None:
    api = described_api("1")
    add_sockets(api)
    index = RouteIndex(api.router)
    templates = [str(getattr(route, "path", "")) for route in api.router.routes]
    paths = {re.sub(r"\{[^}]+\}", value, template) for template in templates for value in ("1", "a/b")}
    fit = 0
    for path in (*sorted(paths), *ODD):
        for kind, method in (("http", "GET"), ("http", "POST"), ("websocket", "")):
            among = fitting(api.router.routes, path, kind, method)
            assert fitting(index.among(path).routes, path, kind, method) == among, path
            fit += bool(among)
    assert fit > len(templates)
    assert len(index.among("/api/v2/nodes").routes) < len(templates) / 10


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/a/b/c", "literal"),
        ("/a/b/c/d", "parameter behind"),
        ("/a/b/x", "parameter in front"),
        ("/a/b", "any"),
        ("/a/b/c/d/e", "any"),
        ("/a/b/z", "parameter in front"),
        ("/m/x/y/z", "mounted"),
    ],
)
async def test_routes_that_begin_with_a_parameter_are_tried_in_their_turn(path: str, name: str) -> None:
    def named(text: str) -> Any:
        return lambda request: PlainTextResponse(text)

    router = APIRouter(
        routes=[
            Route("/a/b/c", named("literal")),
            Route("/a/{one}/{two}", named("parameter in front")),
            Route("/a/b/c/{one}", named("parameter behind")),
            Route("/a/b/z", named("literal behind a parameter")),
            Mount("/m", app=PlainTextResponse("mounted")),
            Route("/{rest:path}", named("any")),
        ]
    )
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    scope = {"type": "http", "path": path, "method": "GET", "headers": [], "query_string": b"", "app": None}
    await RouteIndex(router)({**scope}, receive, send)
    assert sent[1]["body"].decode() == name
