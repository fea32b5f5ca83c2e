"""Completing the API's description: names, answers, errors and examples, for every operation.

FastAPI reads the parameters from the route functions. The modules beside this one list the answers; an operation that
is in none of them raises Broken when the description is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from openpai.api.openapi import (
    authn,
    clusters,
    groups,
    jobs,
    monitoring,
    nodes,
    quotas,
    scheduler,
    storages,
    tasks,
    tokens,
    users,
)
from openpai.api.openapi.examples import PREFIX, example_of
from openpai.api.openapi.operations import BINARY, Operation
from openpai.api.openapi.wording import error_example, meaning
from openpai.protocol.errors import STATUS_OF, Broken
from openpai.protocol.schema import json_schema
from openpai.wire.answers import Error

_NOUNS: Final = (jobs, tasks, authn, tokens, users, groups, nodes, clusters, scheduler, storages, quotas, monitoring)
OPERATIONS: Final[Mapping[str, Operation]] = {
    name: operation for noun in _NOUNS for name, operation in noun.OPERATIONS.items()
}
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
    "quotas": "Limits for users.",
    "reports": "Reports of use.",
    "audit": "The log of changes.",
    "alerts": "What needs attention.",
    "info": "What this server is.",
}
_JSON: Final = "application/json"
_DEFS: Final = "#/$defs/"
_SECTION: Final = "JobFile"
_MODE: Final[JsonSchemaMode] = "validation"


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """Return FastAPI's description of the API, completed."""
    asked = {name: message.answer for name, message in OPERATIONS.items() if message.answer is not None}
    schemas, parts = _schemas({**asked, "": Error})
    job_file, sections = _job_file()
    document["components"]["schemas"] = parts = {**parts, **sections}
    document["paths"]["/api/v2/jobs"]["post"]["requestBody"]["content"]["text/yaml"]["schema"] = job_file
    document["tags"] = [{"name": name, "description": words} for name, words in TAGS.items()]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = f"{method.upper()} {path}"
            message = OPERATIONS.get(name)
            if message is None:
                raise Broken(f"no module of api/openapi lists the answer of {name}")
            _complete(operation, message, schemas.get(name), parts)
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


def _complete(operation: dict[str, Any], message: Operation, answer: Any, parts: Mapping[str, Any]) -> None:
    operation["operationId"], operation["summary"] = message.id, message.summary
    given: dict[str, Any] = operation["responses"]
    # This server never sends FastAPI's own answer to faults.
    given.pop("422", None)
    status = next(status for status in given if status[0] in "23")
    success: dict[str, Any] = given[status]
    success["description"] = (
        message.summary if success["description"] == "Successful Response" else success["description"]
    )
    success.pop("content", None)
    if content := _content(message, answer, parts):
        success["content"] = content
    if message.headers:
        success["headers"] = {
            name: {"description": words, "schema": {"type": "string"}} for name, words in message.headers.items()
        }
    others = {
        other: {**success, "description": words} if other < "400" else _error(words, ["InvalidParametersError"])
        for other, words in message.statuses.items()
    }
    operation["responses"] = dict(sorted({status: success, **others, **_errors(operation, message)}.items()))
    _show_request(operation, message, parts)


def _content(message: Operation, answer: Any, parts: Mapping[str, Any]) -> dict[str, Any]:
    content = {} if answer is None else {_JSON: {"schema": answer, "example": example_of(answer, parts)}}
    for media, example in message.media.items():
        kind = "object" if media == "text/yaml" else "string"
        schema = BINARY if media == "application/octet-stream" else {"type": kind}
        content[media] = {"schema": schema, "example": example}
    return content


def _errors(operation: Mapping[str, Any], message: Operation) -> dict[str, Any]:
    names = [*message.errors.split(), *_usual(operation, message)]
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        found.setdefault(str(STATUS_OF[name]), []).append(name)
    return {status: _error(" or ".join(of), of) for status, of in found.items()}


def _usual(operation: Mapping[str, Any], message: Operation) -> Iterable[str]:
    """Return the errors that follow from the parameters and the permission of an operation."""
    if message.id == "getHealth":
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


def _show_request(operation: Mapping[str, Any], message: Operation, parts: Mapping[str, Any]) -> None:
    for content in operation.get("requestBody", {}).get("content", {}).values():
        content["example"] = example_of(content["schema"], parts) if message.request is None else message.request
