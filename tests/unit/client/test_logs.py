"""Following a log over connections that break and servers that are restarted."""

from __future__ import annotations

import httpx
import pytest

from openpai.client import Client
from openpai.client.following import TRIES_IN_A_ROW
from openpai.protocol.errors import Refused, Unavailable
from tests.unit.client.sse_answers import log, stream

BASE = "/api/v2/jobs/ann~hello/attempts/0/taskRoles/w/taskIndex/0/attempts/0/logs"
PLACES = httpx.Response(
    200, json={"locations": [{"name": name, "uri": f"{BASE}/{name}"} for name in ("stdout", "stderr", "all")]}
)


END = "event: end\ndata: {}\n\n"


def follow(server) -> list[str]:
    pai = server.client()
    return [piece.text for piece in pai.logs("hello", "w", 0, attempt=0, job_attempt=0).follow()]


def test_follow_ends_with_the_attempt(scripted):
    server = scripted(PLACES, stream(": keep-alive\n\n", log(0, "a"), log(1, "b"), END, log(2, "late")))
    assert follow(server) == ["a", "b"]
    assert server.requests[1].url.params["follow"] == "true"


def test_a_log_is_asked_for_where_the_server_is_whatever_a_gateway_calls_it(scripted):
    there = {"name": "stdout", "uri": f"/rest-server{BASE}/stdout?ticket=t"}
    server = scripted(httpx.Response(200, json={"locations": [there]}), httpx.Response(200, text="a"))
    with Client("http://pai.test/rest-server", "t0ken", user="ann", transport=httpx.MockTransport(server)) as pai:
        assert pai.logs("hello", "w", 0, attempt=0, job_attempt=0).text("stdout") == "a"
    assert [request.url.path for request in server.requests] == [f"/rest-server{BASE}", f"/rest-server{BASE}/stdout"]


def test_follow_goes_on_where_it_was_when_the_server_ends_the_stream(scripted):
    server = scripted(PLACES, stream(log(0, "a")), httpx.ConnectError("down"), stream(log(1, "b"), END))
    assert follow(server) == ["a", "b"]
    assert [request.headers.get("Last-Event-ID") for request in server.requests[1:]] == [None, "0", "0"]
    assert len(server.pauses) == 2


def test_follow_gives_up_on_a_server_that_stays_away(scripted):
    server = scripted(PLACES, httpx.ConnectError("down"))
    with pytest.raises(Unavailable):
        follow(server)
    assert len(server.requests) == 1 + TRIES_IN_A_ROW


def test_follow_gives_up_with_what_a_server_said_that_could_never_serve_it(scripted):
    full = httpx.Response(503, json={"code": "TooManyFollowersError", "message": "200 logs are followed already"})
    server = scripted(PLACES, full)
    with pytest.raises(Unavailable, match="200 logs are followed already"):
        follow(server)
    assert len(server.requests) == 1 + TRIES_IN_A_ROW


def test_follow_passes_a_refusal_on_at_once(scripted):
    server = scripted(PLACES, httpx.Response(404, json={"code": "NoTaskLogError", "message": "too old"}))
    with pytest.raises(Refused, match="too old"):
        follow(server)
    assert len(server.requests) == 2


def test_the_newest_attempt_is_meant_unless_another_is_named(scripted):
    task = {"taskIndex": 0, "taskState": "RUNNING", "attemptId": 3}
    status = {"username": "ann", "state": "RUNNING", "attemptId": 1}
    job = {"name": "hello", "jobStatus": status, "taskRoles": {"w": {"taskStatuses": [task]}}}
    server = scripted(httpx.Response(200, json=job), PLACES)
    server.client().logs("hello", "w", 0)
    server.client().logs("hello", "w", 0, attempt=2, job_attempt=0)
    places = [request.url.path for request in server.requests[1:]]
    assert places == [BASE.replace("attempts/0/taskR", "attempts/1/taskR").replace("0/logs", "3/logs"),
                      BASE.replace("0/logs", "2/logs")]  # fmt: skip


def test_a_log_that_is_not_there_is_refused_with_those_that_are(scripted):
    logs = scripted(PLACES).client().logs("hello", "w", 0, attempt=0, job_attempt=0)
    with pytest.raises(Refused) as caught:
        logs.text("stdin")
    assert "stdout, stderr, all" in caught.value.advice


def test_the_token_goes_nowhere_else(scripted):
    foreign = httpx.Response(200, json={"locations": [{"name": "all", "uri": "http://evil.test/steal?x=1"}]})
    server = scripted(foreign, httpx.Response(200, text="log"))
    assert server.client().logs("hello", "w", 0, attempt=0, job_attempt=0).text() == "log"
    assert {request.url.host for request in server.requests} == {"pai.test"}


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_pieces_are_read_as_the_format_says_however_they_arrive(scripted, size):
    sent = (log(0, "\u00e4").replace("\n", "\r\n") + ": comment\n\n" + log(1, "b") + END + "data: unfinished").encode()
    parts = (sent[at : at + size] for at in range(0, len(sent), size))
    arriving = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, content=parts)
    assert follow(scripted(PLACES, arriving)) == ["\u00e4", "b"]


def test_a_page_of_a_proxy_is_no_log(scripted):
    server = scripted(PLACES, httpx.Response(200, html="<p>back soon</p>"))
    with pytest.raises(Unavailable):
        follow(server)
    assert len(server.requests) == 1 + TRIES_IN_A_ROW


def test_a_log_may_hold_every_character_at_which_some_split_lines(scripted):
    strange = "a\u2028b\u2029c\x85d"
    assert follow(scripted(PLACES, stream(log(0, strange), END))) == [strange]


def test_a_task_that_is_none_of_the_job_s_is_not_promised_for_later(scripted):
    task = {"taskIndex": 0, "taskState": "WAITING"}
    job = {"name": "hello", "jobStatus": {"username": "ann"}, "taskRoles": {"w": {"taskStatuses": [task]}}}
    pai = scripted(httpx.Response(200, json=job)).client()
    for role, index, message in (
        ("w", 0, "has not begun"),
        ("w", 1, "has no task 'w-1'"),
        ("x", 0, "has no task 'x-0'"),
    ):
        with pytest.raises(Refused, match=message):
            pai.logs("hello", role, index)
