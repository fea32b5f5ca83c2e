"""The API's description is whole: every operation has a name, words, examples that hold, and its errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.routing import APIRoute
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate
from starlette.types import Scope

from openpai.api.app import OPERATIONS
from openpai.app.pages.rest import openapi

from .api_world import World


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return openapi()


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_the_description_is_valid(document: dict[str, Any]) -> None:
    validate(document)


def test_every_operation_has_one_name_and_a_summary_of_its_own(document: dict[str, Any]) -> None:
    names = Counter(operation["operationId"] for _, operation in _operations(document))
    assert [name for name, count in names.items() if count > 1] == []
    assert all(name.isidentifier() for name in names)
    tags = {tag["name"] for tag in document["tags"]}
    for name, operation in _operations(document):
        assert operation["summary"], name
        assert not operation["summary"].endswith("."), name
        assert operation["description"].endswith("."), name
        assert operation["tags"], name
        assert tags.issuperset(operation["tags"]), name


def test_the_description_lists_no_operations_that_do_not_exist(document: dict[str, Any]) -> None:
    assert OPERATIONS.keys() == {name for name, _ in _operations(document)}


def test_every_answer_says_what_it_holds_and_shows_one(document: dict[str, Any]) -> None:
    for name, operation in _operations(document):
        answers = operation["responses"]
        assert any(status[0] in "23" for status in answers), name
        for status, answer in answers.items():
            assert answer["description"], (name, status)
            assert "content" in answer or status[0] == "3", (name, status)
            for media, content in answer.get("content", {}).items():
                assert content["schema"], (name, status, media)
                if media == "application/json":
                    _check(document, content, f"{name} {status}")
                else:
                    assert content["example"], (name, status, media)


def test_every_parameter_says_what_it_means(document: dict[str, Any]) -> None:
    for name, operation in _operations(document):
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description"), f"{name}: {parameter['name']}"


def test_no_error_is_shown_as_a_success(document: dict[str, Any]) -> None:
    for name, operation in _operations(document):
        for status, answer in operation["responses"].items():
            if status >= "400":
                shown = answer["content"]["application/json"]["example"]
                assert shown["code"] in answer["description"] or status in OPERATIONS[name].statuses, (name, status)
                assert shown["message"] != "this is done", (name, status)


def test_every_request_shows_a_body_that_could_be_sent(document: dict[str, Any]) -> None:
    for name, operation in _operations(document):
        for media, content in operation.get("requestBody", {}).get("content", {}).items():
            assert content["example"] is not None, name
            if media == "application/json":
                _check(document, content, name)


def test_every_error_that_follows_from_what_an_operation_takes_is_declared(document: dict[str, Any]) -> None:
    for name, operation in _operations(document):
        statuses = operation["responses"].keys()
        assert {"503"} <= statuses, name
        if name != "GET /healthz":
            assert {"429"} <= statuses, name
        if "security" in operation:
            assert {"401", "403"} <= statuses, name
        if "requestBody" in operation:
            assert {"400", "413"} <= statuses, name
        if operation.get("parameters"):
            assert {"400"} <= statuses, name
        for status in statuses:
            if status >= "400":
                content = operation["responses"][status]["content"]["application/json"]
                assert content["schema"] == {"$ref": "#/components/schemas/Error"}, name
                assert content["example"]["code"].endswith("Error"), name


def _check(document: dict[str, Any], content: dict[str, Any], name: str) -> None:
    judge = OAS31Validator({**content["schema"], "components": document["components"]})
    faults = [fault.message for fault in judge.iter_errors(content["example"])]
    assert not faults, f"{name}: {faults}"


async def test_a_request_is_compared_with_each_route_at_most_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = Counter[int]()
    matches = APIRoute.matches

    def counted(route: APIRoute, scope: Scope) -> Any:
        compared[id(route)] += 1
        return matches(route, scope)

    monkeypatch.setattr(APIRoute, "matches", counted)
    assert (await world.http.get("/api/v2/info")).status_code == 200
    assert set(compared.values()) == {1}
