"""What every request can rely on: limits, safe headers, and an answer in one shape whatever goes wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Scope
from structlog.testing import capture_logs

from openpai.api.services import Rate
from openpai.ports.platform import Submitted
from openpai.protocol.errors import Broken, Unavailable
from openpai.system.supervision import failures

from .api_world import PASSWORD, World, job_file, open_world


async def test_the_server_says_what_it_is(world: World) -> None:
    info = {"name": "PAI RESTful API", "version": "1.2.3", "launcherType": "k8s", "authnMethod": "basic"}
    for method in ("GET", "POST", "PUT"):
        for path in ("/api/v1/", "/api/v2/info"):
            assert (await world.http.request(method, path)).json() == info
    assert (await world.http.get("/api/v2/")).headers["content-type"].startswith("text/plain")
    authn = (await world.http.get("/api/v2/authn/info")).json()
    assert authn == {"authn_type": "basic", "loginURI": "/api/v1/authn/basic/login", "loginURIMethod": "post"}


async def test_a_server_is_alive_before_it_is_ready(world: World) -> None:
    health = {"status": "ok", "leads": True, "loopFailures": sum(failures().values())}
    assert (await world.http.get("/healthz")).json() == health
    world.is_ready = False
    answer = await world.http.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, health)


async def test_a_server_without_its_database_is_alive_and_not_ready(world: World) -> None:
    world.database.engine.dispose()
    for file in Path(str(world.database.url.database)).parent.glob("pai.db*"):
        file.unlink()
    # A supervisor that restarts servers that are not alive would restart this one again and again in vain.
    assert (await world.http.get("/healthz")).status_code == 200
    answer = await world.http.get("/readyz")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "removed or replaced" in answer.json()["message"]
    assert str(world.database.url.database) not in answer.text


async def test_readiness_names_the_server(world: World) -> None:
    answer = await world.http.get("/readyz")
    assert (answer.status_code, answer.json()["status"], answer.json()["checks"]["server"]) == (200, "ready", "ok")
    world.is_ready = False
    answer = await world.http.get("/readyz")
    assert (answer.status_code, answer.json()["message"]) == (503, "server: the server is starting or stopping")


async def test_the_first_page_says_where_to_go_and_runs_nothing(world: World) -> None:
    answer = await world.http.get("/", headers={"Host": 'pai"><script>'})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert "pai login --url" in answer.text
    # A package of that name in a registry need not be this project.
    assert "pip install openpai" not in answer.text
    assert "/docs" in answer.text
    assert "<script" not in answer.text


async def test_every_route_is_described(world: World) -> None:
    assert (await world.http.get("/docs")).status_code == 200
    paths = (await world.http.get("/openapi.json")).json()["paths"]
    assert "/api/v2/jobs/{job}/attempts/{number}/taskRoles/{role}/taskIndex/{index}/attempts/{attempt}/logs" in paths
    for path, methods in paths.items():
        for method, described in methods.items():
            assert described["description"].endswith("."), (method, path)
            assert "422" not in described["responses"]
            errors = [answer for status, answer in described["responses"].items() if status >= "400"]
            assert errors, (method, path)
            for error in errors:
                assert error["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Error"}
    submit = paths["/api/v2/jobs"]["post"]
    assert submit["requestBody"]["content"].keys() == {"text/yaml"}
    assert submit["security"] == [{"token": []}]
    names = {parameter["name"] for parameter in paths["/api/v2/jobs"]["get"]["parameters"]}
    assert {"username", "tagsNotContain", "withTotalCount", "jobPriority", "order"} <= names


@pytest.mark.parametrize("path", ["/api/v2/nothing", "/nothing", "/api/v2/jobs/a/b/c", "/api/v3/info"])
async def test_a_path_that_does_not_exist_is_no_api(world: World, path: str) -> None:
    answer = await world.http.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "NoApiError")


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/rest-server/api/v2/jobs", "/api/v2/jobs"),
        ("/rest-server/api/v2/users/", "/api/v2/users"),
        ("/api/v2/users/ann/", "/api/v2/users/ann"),
        ("/rest-server/api/v1/", "/api/v1/"),
        ("/rest-server/api/v2", "/api/v2/"),
        ("/api/v1", "/api/v1/"),
        ("http://test//api/v2/jobs", "/api/v2/jobs"),
        ("/rest-server//api/v2/users", "/api/v2/users"),
    ],
)
async def test_an_address_may_be_spelled_as_older_clients_do(world: World, path: str, meant: str) -> None:
    headers = {**await world.login("ann"), "Host": "evil.example"}
    answers = [await world.http.get(each, headers=headers) for each in (path, meant)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].content == answers[1].content
    assert "content-security-policy" in answers[0].headers


@pytest.mark.parametrize("path", ["/rest-server/docs", "/rest-server/rest-server/api/v2/info", "/api/v2/jobs//"])
async def test_no_address_is_guessed_at(world: World, path: str) -> None:
    answer = await world.http.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "NoApiError")


async def test_a_wrong_method_says_which_are_right(world: World) -> None:
    answer = await world.http.patch("/api/v2/nodes")
    assert (answer.status_code, answer.json()["code"]) == (405, "MethodNotAllowedError")
    assert answer.headers["allow"] == "GET"


async def test_answers_of_the_api_are_not_cached(world: World) -> None:
    answer = await world.ask("GET", "/jobs", headers={"Origin": "https://elsewhere.example"})
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "access-control-allow-origin" not in answer.headers


async def test_a_body_that_announces_too_much_is_refused_unread(world: World) -> None:
    answer = await world.ask("POST", "/jobs", content=b"x" * (10 * 1024 * 1024))
    assert (answer.status_code, answer.json()["code"]) == (413, "RequestTooLargeError")
    just_right = job_file().encode()
    just_right += b"#" * (1024 * 1024 - len(just_right))
    assert (await world.ask("POST", "/jobs", content=just_right)).status_code == 202


async def test_a_body_that_announces_nothing_is_cut_off(world: World) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 100 * 1024 * 1024:
            sent += 65536
            yield b"#" * 65536

    headers = await world.login("ann")
    answer = await raw(world, "POST", "/api/v2/jobs", headers, endless())
    assert (answer[0], answer[1]["code"]) == (413, "RequestTooLargeError")
    assert sent <= 2 * 1024 * 1024


def scope_of(method: str, path: str, headers: dict[str, str]) -> Scope:
    """Return a request as a server hands it to the API."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": None,
        "server": ("pai", 80),
    }


async def raw(
    world: World, method: str, path: str, headers: dict[str, str], body: AsyncIterator[bytes]
) -> tuple[int, Any]:
    """Send a request part by part and return the status and the document of its answer."""
    output: list[Message] = []

    async def receive() -> Message:
        part = await anext(body, None)
        return {"type": "http.request", "body": part or b"", "more_body": part is not None}

    async def send(message: Message) -> None:
        output.append(message)

    await world.api(scope_of(method, path, headers), receive, send)
    content = b"".join(message.get("body", b"") for message in output)
    return output[0]["status"], json.loads(content)


async def test_a_known_token_has_a_bucket_of_its_own(tmp_path: Path) -> None:
    async with open_world(tmp_path, requests=Rate(10, 3)) as world:
        headers = await world.login("ann")
        assert (await world.http.get("/api/v2/users/me", headers=headers)).status_code == 200
        assert (await world.http.get("/api/v2/info")).status_code == 200
        assert (await world.http.get("/api/v2/info")).status_code == 429
        answers = [await world.http.get("/api/v2/users/me", headers=headers) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]


async def test_too_many_requests_of_one_address_are_answered_with_when_to_retry(tmp_path: Path) -> None:
    async with open_world(tmp_path, requests=Rate(10, 3)) as world:
        made_up = [{"Authorization": f"Bearer made-up-{number}"} for number in range(4)]
        answers = [await world.http.get("/api/v2/jobs", headers=headers) for headers in made_up]
        assert [answer.status_code for answer in answers] == [401, 401, 401, 429]
        assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["2", "1", "0", "0"]
        last = answers[-1]
        assert (last.json()["code"], last.headers["retry-after"]) == ("TooManyRequestsError", "1")
        assert last.headers["x-ratelimit-limit"] == "3"
        assert (await world.http.get("/healthz")).status_code == 200
        world.clock.at_ms += 100
        assert (await world.http.get("/api/v2/info")).status_code == 200
        assert (await world.http.get("/api/v2/info")).status_code == 429


@pytest.mark.parametrize("kind", [RuntimeError, Broken])
async def test_an_unexpected_error_is_logged_and_answered_without_internals(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    async def broken(user: str, text: bytes) -> Submitted:
        raise kind("the combination of the safe is 1234")

    monkeypatch.setattr(world.commands, "submit", broken)
    with capture_logs() as logs:
        answer = await world.ask("POST", "/jobs", content=b"x")
    assert (answer.status_code, answer.json()["code"]) == (500, "UnknownError")
    assert "1234" not in answer.text
    [logged] = [entry for entry in logs if entry["log_level"] == "error"]
    assert (logged["path"], logged["exc_info"]) == ("/api/v2/jobs", True)


async def test_a_store_that_is_away_is_unavailable(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(user: str, text: bytes) -> Submitted:
        raise Unavailable("the database does not answer")

    monkeypatch.setattr(world.commands, "submit", away)
    answer = await world.ask("POST", "/jobs", content=b"x")
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "UnavailableError", "1")


async def test_a_database_that_lost_a_table_is_unavailable_and_does_not_say_which(world: World) -> None:
    await world.login("ann")
    world.database.engine.dispose()
    for file in Path(str(world.database.url.database)).parent.glob("pai.db*"):
        file.unlink()
    answer = await world.ask("GET", "/jobs")
    assert (answer.status_code, answer.json()["code"]) == (503, "UnavailableError")
    assert "SELECT" not in answer.text


async def test_a_hundred_submissions_at_once_are_each_answered(world: World) -> None:
    await world.login("ann")
    files = [job_file(f"job-{number}").encode() for number in range(100)]
    answers = await asyncio.gather(*(world.ask("POST", "/jobs", content=text) for text in files))
    assert {answer.status_code for answer in answers} == {202}
    assert len(await world.get("/jobs")) == 100


async def test_a_password_never_appears_in_an_answer(world: World) -> None:
    answer = await world.http.post("/api/v2/tokens", json={"username": PASSWORD, "password": PASSWORD})
    assert answer.status_code == 400
    assert PASSWORD not in answer.text


async def test_a_client_that_goes_away_while_it_sends_is_no_error(world: World) -> None:
    headers = await world.login("ann")
    output: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        output.append(message)

    with capture_logs() as logs:
        await world.api(scope_of("POST", "/api/v2/jobs", headers), receive, send)
    assert (output, logs) == ([], [])
