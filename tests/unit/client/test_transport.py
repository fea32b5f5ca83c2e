"""Retries after failed requests, and the families of their errors."""

from __future__ import annotations

import httpx
import pytest

from openpai.client import Client, retry
from openpai.client.retry import TRIES, is_loopback, options
from openpai.protocol.errors import Broken, InvalidProtocol, Refused, Unavailable

NODES = httpx.Response(200, json=[])
BUSY = httpx.Response(503, json={"code": "UnavailableError", "message": "starting"})
REFUSED = httpx.ConnectError("Connection refused")


def test_a_busy_server_is_asked_again_until_it_answers(scripted):
    server = scripted(BUSY, REFUSED, NODES)
    assert server.client().nodes() == ()
    assert len(server.requests) == 3
    assert len(server.pauses) == 2


def test_the_server_says_how_long_to_wait(scripted):
    slow = httpx.Response(429, headers={"Retry-After": "7"}, json={"code": "TooManyRequestsError", "message": "slow"})
    server = scripted(slow, NODES)
    server.client().nodes()
    assert server.pauses == [7.0]


def test_a_long_pause_is_an_error_at_once(scripted):
    body = {"code": "TooManyRequestsError", "message": "too many failed logins", "advice": "wait 58 s and try again"}
    server = scripted(httpx.Response(429, headers={"Retry-After": "58"}, json=body))
    with pytest.raises(Unavailable, match="too many failed logins") as caught:
        server.client().login("ann", "wrong")
    assert caught.value.advice == "wait 58 s and try again"
    assert server.pauses == []
    bare = scripted(httpx.Response(429, headers={"Retry-After": "58"}))
    with pytest.raises(Unavailable) as caught:
        bare.client().nodes()
    assert caught.value.advice == "try again in 58 s"


def test_a_refusal_that_took_long_is_final(scripted, monkeypatch):
    monkeypatch.setattr(retry, "SLOW_S", 0.0)
    server = scripted(BUSY, NODES)
    with pytest.raises(Unavailable, match="starting"):
        server.client().nodes()
    assert server.pauses == []


def test_a_server_cannot_make_us_wait_for_hours(scripted):
    server = scripted(httpx.Response(503, headers={"Retry-After": "86400"}), NODES)
    server.client().nodes()
    assert server.pauses == [30.0]


@pytest.mark.parametrize("until", ["Wed, 21 Oct 2015 07:28:09 GMT", "Wed, 21 Oct 2015 09:28:09 +0200"])
def test_the_server_says_until_when_to_wait_by_its_own_clock(scripted, until):
    now = "Wed, 21 Oct 2015 07:28:00 GMT"
    server = scripted(httpx.Response(503, headers={"Retry-After": until, "Date": now}), NODES)
    server.client().nodes()
    assert server.pauses == [9.0]


def test_a_retry_time_in_the_past_is_ignored(scripted):
    then, now = "Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:28:09 GMT"
    server = scripted(httpx.Response(503, headers={"Retry-After": then, "Date": now}), NODES)
    server.client().nodes()
    assert 0 < server.pauses[0] < 1


def test_it_gives_up_and_says_which_server_and_what_to_do(scripted):
    server = scripted(REFUSED)
    with pytest.raises(Unavailable) as caught:
        server.client().nodes()
    assert len(server.requests) == TRIES
    assert len(server.pauses) == TRIES - 1
    assert all(0 < pause <= 30 for pause in server.pauses)
    assert "http://pai.test" in caught.value.message
    assert "pai up" in caught.value.advice


def test_too_many_requests_stays_unavailable_and_keeps_its_name(scripted):
    server = scripted(httpx.Response(429, json={"code": "TooManyRequestsError", "message": "slow down"}))
    with pytest.raises(Unavailable, match="slow down") as caught:
        server.client().nodes()
    assert caught.value.code == "TooManyRequestsError"


def test_a_submission_that_never_reached_the_server_is_sent_again(scripted):
    server = scripted(REFUSED, httpx.Response(202, json={"user": "ann", "name": "hello"}))
    assert server.client().submit("name: hello").full_name == "ann~hello"


def test_a_submission_with_a_lost_answer_is_sent_again_under_the_same_key(scripted):
    server = scripted(httpx.ReadError("reset"), httpx.Response(202, json={"user": "ann", "name": "hello"}))
    assert server.client().submit("name: hello").full_name == "ann~hello"
    first, second = (request.headers["Idempotency-Key"] for request in server.requests)
    assert first == second
    server.client().submit("name: hello")
    assert server.requests[2].headers["Idempotency-Key"] != first


def test_what_may_have_been_done_is_not_repeated(scripted):
    server = scripted(httpx.ReadError("reset"))
    with pytest.raises(Unavailable, match="broke before the answer"):
        server.client().add_user("bob", "secret-1")
    assert len(server.requests) == 1


@pytest.mark.parametrize(("status", "tries"), [(502, 1), (504, 1), (503, TRIES)])
def test_what_a_proxy_may_have_passed_on_is_not_repeated(scripted, status, tries):
    server = scripted(httpx.Response(status, text="<html>"))
    with pytest.raises(Unavailable) as caught:
        server.client().add_user("bob", "secret-1")
    assert len(server.requests) == tries
    assert ("check before you repeat it" in caught.value.advice) is (tries == 1)


@pytest.mark.parametrize(
    "promise",
    [
        lambda pai: pai.start("hello"),
        lambda pai: pai.archive("hello"),
        lambda pai: pai.delete("hello"),
        lambda pai: pai.remove_user("bob"),
        lambda pai: pai.remove_group("vision"),
        lambda pai: pai.revoke_token("t0ken"),
        lambda pai: pai.revoke_tokens(),
        lambda pai: pai.logout(),
        lambda pai: pai.change_me("ann", old_password="secret-1", new_password="secret-2"),
    ],
)
def test_what_would_run_twice_or_be_refused_the_second_time_is_not_repeated(scripted, promise):
    server = scripted(httpx.ReadError("reset"))
    with pytest.raises(Unavailable, match="broke before the answer"):
        promise(server.client())
    assert len(server.requests) == 1


def test_what_cannot_be_sent_is_refused_at_once(scripted):
    server = scripted(NODES)
    with pytest.raises(Refused, match="POST /api/v2/jobs cannot be sent"):
        server.client().submit("name: hello", key="n\xe4chtlich")
    assert (server.requests, server.pauses) == ([], [])


def test_a_header_with_a_line_break_is_not_taken_for_a_server_that_is_away(scripted):
    server = scripted(httpx.LocalProtocolError("Illegal header value"))
    with pytest.raises(Refused, match="cannot be sent: Illegal header value"):
        server.client().nodes()
    assert len(server.requests) == 1


@pytest.mark.parametrize("token", ["t0ken\n", "t\xf6ken"])
def test_a_token_that_is_none_is_refused(token):
    with pytest.raises(Refused, match="the token contains"):
        Client("http://pai.test", token)


def test_an_address_that_is_none_is_refused():
    with pytest.raises(Refused, match="is not the address of a server"):
        Client("http://h\xf6st_.test")


@pytest.mark.parametrize("message", ["\xb2", "-1", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_a_time_to_wait_that_is_no_number_is_not_believed(scripted, message):
    answer = httpx.Response(503, headers={"Retry-After": message.encode("latin-1")})
    server = scripted(answer, NODES)
    server.client().nodes()
    assert 0 < server.pauses[0] < 1


def test_a_silent_server_is_not_waited_for_five_times(scripted):
    server = scripted(httpx.ReadTimeout("timed out"))
    with pytest.raises(Unavailable, match="timed out"):
        server.client().nodes()
    assert len(server.requests) == 2


def test_a_redirect_is_reported_and_not_followed(scripted):
    server = scripted(httpx.Response(302, headers={"Location": "https://pai.test/"}))
    with pytest.raises(Refused, match=r"302 Found, which leads to https://pai\.test/"):
        server.client().nodes()
    assert len(server.requests) == 1


def test_reading_is_repeated_after_a_broken_connection(scripted):
    server = scripted(httpx.ReadError("reset"), NODES)
    assert server.client().nodes() == ()


@pytest.mark.parametrize(
    ("status", "code", "family"),
    [
        (404, "NoJobError", Refused),
        (409, "ConflictJobError", Refused),
        (403, "ForbiddenUserError", Refused),
        (500, "UnknownError", Broken),
    ],
)
def test_a_failure_keeps_its_code_and_is_reported_once(scripted, status, code, family):
    server = scripted(httpx.Response(status, json={"code": code, "message": "so it is", "advice": "do that"}))
    with pytest.raises(family) as caught:
        server.client().job("hello")
    assert (caught.value.message, len(server.requests)) == ("so it is", 1)
    if family is Refused:
        assert (caught.value.code, caught.value.advice) == (code, "do that")


def test_a_forgotten_login_says_how_to_log_in(scripted):
    server = scripted(httpx.Response(401, json={"code": "UnauthorizedUserError", "message": "token expired"}))
    with pytest.raises(Refused) as caught:
        server.client().nodes()
    assert "pai login" in caught.value.advice


def test_a_server_with_an_untrusted_certificate_is_tried_once(scripted):
    server = scripted(httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed"))
    with pytest.raises(Refused) as caught:
        server.client().nodes()
    assert len(server.requests) == 1
    assert "SSL_CERT_FILE" in caught.value.advice


def test_certificates_named_for_this_machine_are_believed_without_its_proxies(monkeypatch, tmp_path):
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    with pytest.raises(FileNotFoundError):
        options("https://127.0.0.1:1", None, 1)
    assert options("http://127.0.0.1:1", None, 1)["verify"] is False


def test_all_faults_of_a_file_arrive(scripted):
    fault = {"path": "taskRoles.w.instances", "line": 7, "message": "must be >= 1", "allowed": ">= 1", "suggestion": ""}
    body = {"code": "InvalidProtocolError", "message": "...", "faults": [fault, {**fault, "line": None}]}
    with pytest.raises(InvalidProtocol) as caught:
        scripted(httpx.Response(400, json=body)).client().submit("x")
    first, second = caught.value.faults
    assert (first.path, first.line, first.allowed, second.line) == ("taskRoles.w.instances", 7, ">= 1", None)


def test_a_proxy_that_refuses_a_large_request_is_reported(scripted):
    with pytest.raises(Refused) as caught:
        scripted(httpx.Response(413, text="<html>nginx</html>")).client().submit("x")
    assert "client_max_body_size" in caught.value.advice


def test_a_stranger_that_answers_is_not_taken_for_the_platform(scripted):
    with pytest.raises(Refused) as caught:
        scripted(httpx.Response(404, text="<html>nginx</html>")).client().nodes()
    assert "OpenPAI" in caught.value.advice


@pytest.mark.parametrize(("status", "family"), [(501, Refused), (500, Broken)])
def test_a_stranger_that_fails_is_no_bug_of_ours(scripted, status, family):
    with pytest.raises(family) as caught:
        scripted(httpx.Response(status, text="<html>Unsupported method</html>")).client().login("ann", "secret-1")
    assert caught.value.advice == "is http://pai.test/ an OpenPAI server?"


def test_a_server_without_tls_is_reported_as_one(scripted):
    server = scripted(httpx.ConnectError("[SSL: WRONG_VERSION_NUMBER] wrong version number"))
    with pytest.raises(Unavailable, match="cannot reach") as caught:
        server.client().nodes()
    assert "speaks no TLS" in caught.value.advice


@pytest.mark.parametrize(
    ("url", "expected"),
    [("http://127.0.0.1:9186", True), ("http://[::1]:1", True), ("http://localhost", True), ("http://pai.test", False)],
)
def test_only_this_machine_is_loopback(url, expected):
    assert is_loopback(url) is expected
