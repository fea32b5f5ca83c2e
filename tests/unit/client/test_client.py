"""The requests of the client, and how it reads the answers."""

from __future__ import annotations

import httpx
import pytest

from openpai.client import Client, model
from openpai.client.calls.jobs import FAILURES_IN_A_ROW, LOOK_S
from openpai.client.model import JobDetail
from openpai.client.retry import TRIES
from openpai.protocol.errors import Refused, Unavailable

DETAIL = {
    "name": "hello",
    "jobStatus": {
        "username": "ann",
        "state": "FAILED",
        "attemptId": 1,
        "retries": 1,
        "submissionTime": 1000,
        "launchedTime": 2000,
        "completedTime": 5000,
        "appExitCode": 7,
        "appExitSpec": {"phrase": "Oops"},
        "appExitTriggerTaskRoleName": "w",
        "appExitTriggerTaskIndex": 1,
    },
    "taskRoles": {
        "ps": {"taskRoleStatus": {"name": "ps"}, "taskStatuses": [{"taskIndex": 0, "taskState": "RUNNING"}]},
        "w": {
            "taskRoleStatus": {"name": "w"},
            "taskStatuses": [{"taskIndex": 1, "taskState": "FAILED", "attemptId": 0, "containerExitCode": 7}],
        },
    },
}


def state(name: str) -> httpx.Response:
    return httpx.Response(200, json={"name": "hello", "jobStatus": {"username": "ann", "state": name}})


@pytest.mark.parametrize(
    ("output", "at_ms"),
    [("2026-01-31T12:00:00.250Z", 1_769_860_800_250), (None, None), ("yesterday", None), (7, None)],
)
def test_an_event_says_when_it_happened(output, at_ms):
    assert model.Event.read({"reason": "Running", "lastTimestamp": output}).at_ms == at_ms


def test_a_detail_becomes_plain_values():
    job = JobDetail.read(DETAIL)
    assert (job.full_name, job.state, job.attempt, job.exit_code, job.exit_phrase) == (
        "ann~hello",
        "FAILED",
        1,
        7,
        "Oops",
    )
    assert (job.trigger_role, job.trigger_index, job.roles) == ("w", 1, ("ps", "w"))
    assert [(task.name, task.state, task.attempt) for task in job.tasks] == [
        ("ps-0", "RUNNING", None),
        ("w-1", "FAILED", 0),
    ]
    assert job.document is DETAIL


def test_a_bare_name_is_a_job_of_ones_own(scripted):
    server = scripted(state("RUNNING"))
    server.client().job("hello")
    server.client().job("bob~Hello_2")
    assert [request.url.path for request in server.requests] == ["/api/v2/jobs/ann~hello", "/api/v2/jobs/bob~Hello_2"]


@pytest.mark.parametrize("name", ["", "..", "a/b"])
def test_a_name_never_leaves_its_place_in_the_path(scripted, name):
    server = scripted(state("RUNNING"))
    with pytest.raises(Refused, match="not a job's name"):
        server.client().job(name)
    assert server.requests == []


def test_a_list_sends_only_the_filters_that_say_something(scripted):
    server = scripted(httpx.Response(200, json={"totalCount": 3, "data": [{"username": "ann", "name": "x"}]}))
    page = server.client().jobs(limit=1, username="ann", vc="", state="RUNNING")
    assert (page.total, [job.full_name for job in page.jobs]) == (3, ["ann~x"])
    params = dict(server.requests[0].url.params)
    assert params == {"limit": "1", "offset": "0", "withTotalCount": "true", "username": "ann", "state": "RUNNING"}


def test_wait_returns_once_the_job_is_over(scripted):
    server = scripted(state("WAITING"), state("RUNNING"), state("SUCCEEDED"))
    assert server.client().wait("hello").state == "SUCCEEDED"
    assert len(server.pauses) == 2


def test_wait_goes_on_when_the_server_was_started_again_meanwhile(scripted):
    server = scripted(state("RUNNING"), *[httpx.ConnectError("down")] * TRIES, state("SUCCEEDED"))
    assert server.client().wait("hello").state == "SUCCEEDED"


@pytest.mark.parametrize("before", [[], ["RUNNING"]], ids=["never", "once"])
def test_wait_gives_up_on_a_server_that_was_never_there_or_stays_away(scripted, before):
    server = scripted(*map(state, before), httpx.ConnectError("down"))
    with pytest.raises(Unavailable, match="down"):
        server.client().wait("hello")
    assert len(server.requests) == (1 + TRIES * FAILURES_IN_A_ROW if before else TRIES)


def test_wait_does_not_wait_for_ever(scripted):
    server = scripted(state("RUNNING"))
    with pytest.raises(Unavailable, match="not over after 0 s"):
        server.client().wait("hello", timeout_s=0)


def test_every_request_carries_the_token_and_a_submission_its_text(scripted):
    server = scripted(httpx.Response(202, json={"user": "ann", "name": "hello", "warnings": ["w"]}))
    assert server.client().submit("name: hällo").warnings == ("w",)
    assert server.requests[0].headers["Authorization"] == "Bearer t0ken"
    assert server.requests[0].content.decode() == "name: hällo"


def test_all_jobs_asks_for_a_page_only_when_it_is_needed(scripted):
    data = [{"username": "ann", "name": str(number)} for number in range(2)]
    server = scripted(httpx.Response(200, json={"totalCount": 4, "data": data}))
    jobs = server.client().all_jobs(page=2)
    assert server.requests == []
    assert next(jobs).name == "0"
    assert len(server.requests) == 1


def test_a_wait_counts_the_time_that_answers_take(scripted):
    server = scripted(state("RUNNING"))
    pai = server.client()
    pai.clock = lambda: 3600.0 * len(server.requests)
    with pytest.raises(Unavailable, match="not over after 5000 s"):
        pai.wait("hello", timeout_s=5000)
    assert len(server.requests) == 2


@pytest.mark.parametrize("timeout_s", [0, 5, 30, 100])
@pytest.mark.parametrize("states", [[], ["RUNNING"]], ids=["never", "once"])
def test_a_wait_for_a_silent_server_takes_no_longer_than_it_may(silent, timeout_s, states):
    server = silent(*map(state, states))
    pai = Client("http://pai.test", transport=httpx.MockTransport(server), sleep=server.sleep, clock=server.clock)
    message = "RUNNING" if states else "timed out"
    with pytest.raises(Unavailable, match=message):
        pai.wait("ann~hello", timeout_s=timeout_s)
    assert server.at_s <= max(timeout_s, LOOK_S)


def test_a_wait_reports_the_last_state_of_the_job(silent):
    server = silent(state("RUNNING"))
    pai = Client("http://pai.test", transport=httpx.MockTransport(server), sleep=server.sleep, clock=server.clock)
    with pytest.raises(Unavailable, match="it was RUNNING, and the server does not answer"):
        pai.wait("ann~hello", timeout_s=10)


def test_a_list_of_values_is_sent_as_a_comma_list(scripted):
    server = scripted(httpx.Response(200, json={"totalCount": 0, "data": []}))
    server.client().jobs(state=["RUNNING", "WAITING"], vc=())
    params = dict(server.requests[0].url.params)
    assert (params["state"], "vc" in params) == ("RUNNING,WAITING", False)


def test_a_client_has_a_timeout_for_answers(scripted):
    assert Client("http://pai.test", timeout_s=2).wire._http.timeout.read == 2
