"""Completing the API's description: answers, errors and examples, for every operation.

FastAPI reads the parameters from the route functions; the rest is declared with each route (`api.routing`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from openpai.api.openapi.wording import error_example, meaning
from openpai.api.routing import Operation
from openpai.protocol.errors import STATUS_OF
from openpai.protocol.schema import json_schema
from openpai.wire.answers import Error

TAGS: Final = {
    "jobs": "Submit, show and change jobs.",
    "tasks": "The tasks of a job.",
    "logs": "The output of tasks.",
    "cluster": "The nodes of the cluster.",
    "virtual clusters": "Shares of the cluster with guarantees.",
    "scheduler": "The state and settings of the scheduler.",
    "tokens": "Credentials of logins and applications.",
    "authentication": "Logging in and out.",
    "users": "Accounts.",
    "groups": "Users with the same rights.",
    "storages": "Named places for data.",
    "code": "The code that is sent along with jobs.",
    "exit specs": "Causes of failures, and the rules that find them.",
    "market": "Job templates, data sets and models that users publish for each other.",
    "metrics": "What is measured of the platform, its nodes and jobs.",
    "sweeps": "Jobs of a parameter matrix, seen and stopped as one.",
    "quotas": "Limits for users.",
    "budgets": "GPU hours in a period.",
    "reports": "Reports of use.",
    "audit": "The log of changes.",
    "alerts": "What needs attention.",
    "announcements": "What administrators announce to all users.",
    "plugin pages": "Pages of other servers that the portal shows.",
    "settings": "The settings of the server.",
    "info": "What this server is.",
}
PREFIX: Final = "#/components/schemas/"
_OF_TYPE: Final[Mapping[str, Any]] = {"string": "", "integer": 0, "number": 0.5, "boolean": False, "null": None}
_DEPTH_MAX: Final = 12
BINARY: Final = {"type": "string", "format": "binary"}
_JSON: Final = "application/json"
_DEFS: Final = "#/$defs/"
_SECTION: Final = "JobFile"
# The errors for what a path names and does not exist. That attempts are kept is answered for any job.
_MISSING: Final = {
    r"/jobs/{job}(?!/job-attempts/healthz)": "NoJobError",
    "/users/{username}": "NoUserError",
    "/groups/{groupname}": "NoGroupError",
    "/nodes/{name}": "NoNodeError",
    "/market/items/{item}": "NoMarketItemError",
    "/storages?/": "NoStorageError",
}
_MODE: Final[JsonSchemaMode] = "validation"


def complete(document: dict[str, Any], operations: Mapping[str, Operation]) -> dict[str, Any]:
    """Return FastAPI's description of the API, completed."""
    answers = {name: answer for name, one in operations.items() if (answer := one.answer) is not None}
    schemas, parts = _schemas({**answers, "": Error})
    job_file, sections = _job_file()
    document["components"]["schemas"] = parts = {**parts, **sections}
    for path in ("/api/v2/jobs", "/api/v2/jobs/check"):
        document["paths"][path]["post"]["requestBody"]["content"]["text/yaml"]["schema"] = job_file
    document["tags"] = [{"name": name, "description": words} for name, words in TAGS.items()]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = f"{method.upper()} {path}"
            _complete(path, operation, operations[name], schemas.get(name), parts)
            for parameter in operation.get("parameters", ()):
                if "description" not in parameter:
                    parameter["description"] = meaning(path, parameter["name"])
    return document


def _schemas(models: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    adapters = ((name, _MODE, TypeAdapter[Any](model)) for name, model in models.items())
    found, rest = TypeAdapter.json_schemas(
        list(adapters), ref_template=PREFIX + "{model}", schema_generator=GenerateJsonSchema
    )
    return {name: schema for (name, _), schema in found.items()}, dict(sorted(rest.get("$defs", {}).items()))


def _job_file() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of a job file, and those it refers to."""
    text = json.dumps(json_schema()).replace(_DEFS, f"{PREFIX}{_SECTION}")
    whole: dict[str, Any] = json.loads(text)
    del whole["$schema"]
    return whole, {f"{_SECTION}{name}": section for name, section in whole.pop("$defs").items()}


def _complete(path: str, operation: dict[str, Any], declared: Operation, answer: Any, parts: Mapping[str, Any]) -> None:
    given: dict[str, Any] = operation["responses"]
    # This server never sends FastAPI's own answer to faults.
    given.pop("422", None)
    status = next(status for status in given if status[0] in "23")
    success: dict[str, Any] = given[status]
    success.pop("content", None)
    if content := _content(declared, answer, parts):
        success["content"] = content
    if declared.headers:
        success["headers"] = {
            name: {"description": words, "schema": {"type": "string"}} for name, words in declared.headers.items()
        }
    others = {
        other: {**success, "description": words} if other < "400" else _error(words, ["InvalidParametersError"])
        for other, words in declared.statuses.items()
    }
    operation["responses"] = dict(sorted({status: success, **others, **_errors(path, operation, declared)}.items()))
    _show_request(operation, declared, parts)


def _content(declared: Operation, answer: Any, parts: Mapping[str, Any]) -> dict[str, Any]:
    content = {} if answer is None else {_JSON: {"schema": answer, "example": example_of(answer, parts)}}
    for media, example in declared.media.items():
        kind = "object" if media == "text/yaml" else "string"
        schema = BINARY if media == "application/octet-stream" else {"type": kind}
        content[media] = {"schema": schema, "example": example}
    return content


def _errors(path: str, operation: Mapping[str, Any], declared: Operation) -> dict[str, Any]:
    missing = [error for part, error in _MISSING.items() if re.search(part, path)]
    names = [*missing, *declared.errors.split(), *_usual(operation)]
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        found.setdefault(str(STATUS_OF[name]), []).append(name)
    return {status: _error(" or ".join(of), of) for status, of in found.items()}


def _usual(operation: Mapping[str, Any]) -> Iterable[str]:
    """Return the errors that follow from the parameters and the permission of an operation."""
    if operation["operationId"] == "getHealth":
        return ("UnavailableError",)
    names = ["TooManyRequestsError", "UnavailableError"]
    if "security" in operation:
        names += ["UnauthorizedUserError", "ForbiddenUserError"]
    if "parameters" in operation or "requestBody" in operation:
        names.append("InvalidParametersError")
    if "requestBody" in operation:
        names.append("RequestTooLargeError")
    return names


def _error(words: str, names: list[str]) -> dict[str, Any]:
    content = {"schema": {"$ref": PREFIX + "Error"}, "example": error_example(names[0])}
    return {"description": words, "content": {_JSON: content}}


def _show_request(operation: Mapping[str, Any], declared: Operation, parts: Mapping[str, Any]) -> None:
    for content in operation.get("requestBody", {}).get("content", {}).values():
        content["example"] = example_of(content["schema"], parts) if declared.example is None else declared.example


def example_of(schema: Mapping[str, Any], parts: Mapping[str, Any], depth: int = 0) -> Any:
    """Return a document that a schema allows; `parts` are the schemas it may refer to."""
    if "$ref" in schema:
        return example_of(parts[schema["$ref"].removeprefix(PREFIX)], parts, depth + 1)
    for key in ("examples", "enum"):
        if schema.get(key):
            return schema[key][0]
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return example_of(schema[key][0], parts, depth + 1)
    return _made(schema, parts, depth)


def _made(schema: Mapping[str, Any], parts: Mapping[str, Any], depth: int) -> Any:
    kind = schema.get("type", "object")
    if kind == "array":
        # Types that contain themselves, such as cells, end here.
        return [example_of(schema["items"], parts, depth + 1)] if depth < _DEPTH_MAX and "items" in schema else []
    if kind == "object":
        needed = schema.get("required", ())
        return {
            name: example_of(of, parts, depth + 1)
            for name, of in schema.get("properties", {}).items()
            if name in needed or "examples" in of
        }
    return _OF_TYPE[kind]
