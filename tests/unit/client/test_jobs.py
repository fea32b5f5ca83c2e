"""The requests of the client about jobs."""

from __future__ import annotations

import json

import httpx
import pytest

from openpai.protocol.errors import Refused

DONE = httpx.Response(200, json={"message": "done"})
ID = "0123456789abcdef" * 2


def page(*names: str, total: int, after: str = "") -> httpx.Response:
    link = {"Link": f'</api/v2/jobs?limit=2&after={after}>; rel="next"'} if after else {}
    return httpx.Response(
        200, headers=link, json={"totalCount": total, "data": [{"username": "ann", "name": name} for name in names]}
    )


@pytest.mark.parametrize(
    ("method", "arguments", "request_line", "body"),
    [
        ("stop", ("x",), "PUT /api/v2/jobs/ann~x/executionType", {"value": "STOP"}),
        ("start", ("bob~x",), "PUT /api/v2/jobs/bob~x/executionType", {"value": "START"}),
        ("tag", ("x", "good"), "PUT /api/v2/jobs/ann~x/tag", {"value": "good"}),
        ("untag", ("x", "good"), "DELETE /api/v2/jobs/ann~x/tag", {"value": "good"}),
        ("archive", ("x",), "PUT /api/v2/jobs/ann~x/archive", None),
        ("unarchive", (ID,), f"DELETE /api/v2/jobs/{ID}/archive", None),
        ("delete", ("x",), "DELETE /api/v2/jobs/ann~x", None),
    ],
)
def test_a_change_of_one_job_goes_to_its_route(scripted, method, arguments, request_line, body):
    server = scripted(DONE)
    getattr(server.client(), method)(*arguments)
    (request,) = server.requests
    assert f"{request.method} {request.url.path}" == request_line
    assert (json.loads(request.content) if request.content else None) == body


def test_places_are_gone_on_from_and_their_end_is_believed(scripted):
    server = scripted(page("d", "c", total=4, after="Y2E="), page("b", "a", total=9))
    assert [job.name for job in server.client().all_jobs(page=2)] == ["d", "c", "b", "a"]
    assert [request.url.params.get("after") for request in server.requests] == [None, "Y2E="]


def test_many_jobs_are_named_or_described(scripted):
    results = [
        {"job": "ann~a", "status": 200, "message": "ok"},
        {"job": "b", "status": 404, "code": "NoJobError", "message": "no such job"},
    ]
    server = scripted(httpx.Response(200, json={"done": 1, "failed": 1, "more": 3, "results": results}))
    pai = server.client()
    found = pai.many("tag", ["a", "b"], tag="good")
    assert [(one.job, one.is_done, one.code) for one in found.results] == [
        ("ann~a", True, ""),
        ("b", False, "NoJobError"),
    ]
    assert found.more == 3
    pai.many("delete", where={"state": "FAILED"})
    assert [json.loads(request.content) for request in server.requests] == [
        {"action": "tag", "jobs": ["a", "b"], "tag": "good"},
        {"action": "delete", "where": {"state": "FAILED"}},
    ]


def test_one_name_is_one_job_and_not_a_job_for_each_letter(scripted):
    server = scripted(httpx.Response(200, json={"results": []}))
    server.client().many("delete", "train")
    assert json.loads(server.requests[0].content)["jobs"] == ["train"]


@pytest.mark.parametrize("ask", [lambda pai: pai.jobs(user="bob"), lambda pai: list(pai.all_jobs(limit=3))])
def test_a_filter_there_is_not_is_refused_and_does_not_match_everything(scripted, ask):
    server = scripted(page("a", total=1))
    with pytest.raises(Refused, match=r"is not a filter of jobs") as caught:
        ask(server.client())
    assert "username" in caught.value.advice
    assert server.requests == []
