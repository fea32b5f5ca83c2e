"""Routes that answer at several paths: the documented one, and those that older clients use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import APIRouter

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class Aliased:
    """Adds each route to a router under every prefix; only the first is in the OpenAPI document."""

    def __init__(self, router: APIRouter, *prefixes: str) -> None:
        self._router = router
        self._prefixes = prefixes

    def get(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Add a GET route."""
        return self._add("GET", path, options)

    def post(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Add a POST route."""
        return self._add("POST", path, options)

    def put(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Add a PUT route."""
        return self._add("PUT", path, options)

    def delete(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Add a DELETE route."""
        return self._add("DELETE", path, options)

    def _add(self, method: str, path: str, options: dict[str, Any]) -> Callable[[Endpoint], Endpoint]:
        def add(endpoint: Endpoint) -> Endpoint:
            for prefix in self._prefixes:
                is_first = prefix == self._prefixes[0]
                self._router.add_api_route(
                    prefix + path, endpoint, methods=[method], **{"include_in_schema": is_first, **options}
                )
            return endpoint

        return add
