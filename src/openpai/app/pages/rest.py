"""The page of the REST API, from the description that the API gives of itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from openpai.api.app import described_api
from openpai.app.pages.markdown import code, page, table
from openpai.app.pages.schema import type_text
from openpai.protocol.errors import STATUS_OF

_INTRO: Final = """\
The API listens where `pai up` says, on port 9186 by default; a running server describes the same at `/docs` and
`/openapi.json`. Requests carry `Authorization: Bearer TOKEN`. Times are milliseconds since 1970. A job in a path is
`user~job`, or `job` for one's own. [Compatibility](compatibility.md) lists where answers differ from OpenPAI 1.8."""

_ERRORS: Final = """\
Every error has the body `{"code": NAME, "message": SENTENCE}`, most have `advice` as well, and `InvalidProtocolError`
has `faults`: a list of `{path, line, message, allowed, suggestion}`. 429 and 503 may be asked again later.

Every answer, an error too, has the header `X-Request-ID`: the value that the request had in the same header (letters,
digits and `._:/+=@-`, at most 128), or a new one. The server's log has it in each line about the request."""


def rest() -> str:
    """Return the page."""
    description = openapi()
    sections: dict[str, list[str]] = {}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            sections.setdefault(operation["tags"][0], []).append(_operation(method, path, operation))
    overview = (
        [code(f"{method.upper()} {path}"), _first_line(operation)]
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    )
    return page(
        "REST API",
        "the API's own OpenAPI description",
        _INTRO,
        "## Errors",
        _ERRORS,
        table(("Code", "Status"), [[code(name), str(status)] for name, status in STATUS_OF.items()]),
        "## Overview",
        table(("Request", "What it does"), overview),
        *(part for tag, parts in sections.items() for part in (f"## {tag.capitalize()}", *parts)),
    )


def openapi() -> dict[str, Any]:
    """Return the API's description of itself."""
    return described_api("any").openapi()


def _first_line(operation: Mapping[str, Any]) -> str:
    return str(operation.get("description") or operation.get("summary") or "").partition("\n")[0]


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parts = [f"### `{method.upper()} {path}`"]
    if operation.get("deprecated"):
        parts.append("*Kept for older clients.*")
    parts.append(str(operation.get("description") or operation.get("summary") or ""))
    if "security" not in operation:
        parts.append("Needs no login.")
    parameters = list(_parameters(operation))
    if parameters:
        parts.append(table(("Parameter", "Type", "Default", "Meaning"), parameters))
    parts += _body(operation.get("requestBody", {}))
    parts.append("Answers: " + _answers(operation["responses"]))
    return "\n\n".join(parts)


def _parameters(operation: Mapping[str, Any]) -> Iterable[list[str]]:
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path":
            continue  # the path says it
        schema = parameter["schema"]
        default = schema.get("default")
        shown = (
            "" if default in (None, "") else code(str(default).lower() if isinstance(default, bool) else str(default))
        )
        yield [code(parameter["name"]), type_text(schema), shown, parameter.get("description", "")]


def _body(body: Mapping[str, Any]) -> Iterable[str]:
    for media_type, content in body.get("content", {}).items():
        schema = content["schema"]
        if media_type == "text/yaml":
            yield f"Body: {code(media_type)}, a job file as [protocol](protocol.md) says."
            continue
        if "properties" not in schema:
            yield f"Body: {code(media_type)}."
            continue
        yield f"Body: {code(media_type)}."
        required = schema.get("required", ())
        yield table(
            ("Key", "Type", "Required"),
            [
                [code(name), type_text(property_), "yes" if name in required else ""]
                for name, property_ in schema["properties"].items()
            ],
        )


def _answers(responses: Mapping[str, Any]) -> str:
    return ", ".join(f"{status} ({answer['description']})" for status, answer in sorted(responses.items())) + "."
