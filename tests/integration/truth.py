"""Whether answers are what the API's description says: every answer that a test gets is held against it."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, Final

import httpx
from fastapi import FastAPI
from jsonschema_rs import Draft202012Validator

_REFERENCE: Final = re.compile(r'"#/components/schemas/([^"]+)"')


class Truth:
    """The description of an API, as a judge of its answers."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        # What is spelled out goes before what is left open, as it does for the server.
        paths = sorted(document["paths"], key=lambda path: [part[:1] == "{" for part in path.split("/")])
        self._paths = [(re.compile(_pattern(path)), document["paths"][path]) for path in paths]
        self._schemas: dict[str, Any] = document["components"]["schemas"]
        self._operation = cache(self._operation_of)
        self._judge = cache(self._judge_of)
        self._judges: dict[int, Draft202012Validator] = {}

    def faults(self, answer: httpx.Response) -> list[str]:
        """Return what of an answer is not as described; the answer of a route that is not described has no faults."""
        request = answer.request
        operation = self._operation(request.method.lower(), request.url.path)
        if operation is None:
            return []
        where = f"{request.method} {request.url.path} answers {answer.status_code}"
        message = operation["responses"].get(str(answer.status_code))
        if message is None:
            return [f"{where}, which is not described"]
        media = answer.headers.get("content-type", "").partition(";")[0]
        content = message.get("content", {})
        if media not in content:
            return [] if not media and not content else [f"{where} as {media!r}, described are {sorted(content)}"]
        if media != "application/json":
            return []
        schema = content[media]["schema"]
        # The document stays, and with it the number of a schema, which is written once only.
        judge = self._judges.get(id(schema)) or self._judges.setdefault(id(schema), self._judge(json.dumps(schema)))
        return [f"{where}: {_describe(fault)}" for fault in judge.iter_errors(answer.json())]

    def _operation_of(self, method: str, path: str) -> dict[str, Any] | None:
        return next(
            (methods[method] for pattern, methods in self._paths if method in methods and pattern.fullmatch(path)), None
        )

    def _judge_of(self, schema: str) -> Draft202012Validator:
        # Compiled, as one in Python would take longer than all that a test asks for, and without schemas of others.
        used: dict[str, Any] = {}
        texts = [schema]
        while texts:
            for name in _REFERENCE.findall(texts.pop()):
                if name not in used:
                    used[name] = self._schemas[name]
                    texts.append(json.dumps(used[name]))
        return Draft202012Validator({**json.loads(schema), "components": {"schemas": used}})


def _pattern(path: str) -> str:
    parts = re.split(r"(\{\w+\})", path)
    found = "".join("[^/]+" if part[:1] == "{" else re.escape(part) for part in parts)
    # Names of files and of gangs have slashes in them.
    return found.removesuffix("[^/]+") + ".+" if path.endswith(("/{path}", "/affinitygroups/{name}")) else found


def _describe(fault: Any) -> str:
    tried = [each for branch in getattr(fault.kind, "context", ()) for each in branch]
    deepest = max([fault, *tried], key=lambda each: len(each.instance_path))
    return f"{'/'.join(map(str, deepest.instance_path))}: {deepest.message[:300]}"


_TRUTHS: dict[str, Truth] = {}


def truthful(api: FastAPI) -> Callable[[httpx.Response], Awaitable[None]]:
    """Return a hook for a client that fails the test of an answer which is not as its API describes it."""

    async def check(answer: httpx.Response) -> None:
        if api.version not in _TRUTHS:
            # Platforms of one version describe the same, and describing takes a moment.
            _TRUTHS[api.version] = Truth(api.openapi())
        if answer.status_code == 500:
            return  # nobody promises a bug; the tests that make one look at its answer themselves
        if answer.headers.get("content-type") == "application/json":
            await answer.aread()
        faults = _TRUTHS[api.version].faults(answer)
        assert not faults, "\n".join(faults)

    return check
