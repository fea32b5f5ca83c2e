"""Bad input of every sort, tried at every place of the API that the description names."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import fastapi
import httpx
import pytest
import starlette

from openpai.api.services import Rate
from tests.costs import counted_lines

from .api_world import World, job_file, open_world
from .test_api_limits import raw, scope_of

NAMES: Final = {"job": "ann~train", "username": "ann", "groupname": "default", "group": "default", "vc": "default"}
NUMBERS: Final = ("number", "index", "attempt")
BODIES: Final = {
    "nothing": b"",
    "half a document": b'{"username": "ann"',
    "not UTF-8": b'{"username": "\xff\xfe"}',
    "UTF-16": '{"username": "ann"}'.encode("utf-16"),
    "a lone surrogate": b'{"username": "\\ud800", "value": "\\udfff"}',
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"a":' * 50_000,
    "no number": b'{"expiration": NaN, "value": Infinity}',
    "a huge number": b'{"expiration": ' + b"9" * 5000 + b"}",
    "a huge word": b'{"username": "' + b"a" * 900_000 + b'"}',
    "the same key twice": b'{"username": "ann", "username": "root", "value": 1, "value": 2}',
    "a NUL": b'{"username": "a\\u0000b", "groupname": "\\u0000", "value": "\\u0000", "promise": "\\u0000"}',
    "a list": b"[]",
    "nothing at all": b"null",
}
SQL: Final = (
    "' OR '1'='1",
    "'; DROP TABLE jobs; --",
    '" OR ""="',
    "%' OR 1=1 --",
    "\\' OR 1=1 --",
    "x') UNION SELECT 1 --",
)
PATHS: Final = (
    "..%2f..%2f..%2fetc%2fpasswd", "%2e%2e%2f%2e%2e%2fsecret", "..%5c..%5csecret", "%252e%252e%252fsecret", "%00",
    "....%2f%2fsecret", "a%00b", "a%0d%0aX-Evil:%201", "%ff%fe", "%ed%a0%80", "-rf", "~root", "$(id)", "a" * 5000,
    "'%20OR%201=1--",
)  # fmt: skip
JOB_FILES: Final = (
    b"\xff\xfe\x00\x00",
    b"[" * 200_000,
    b"{a: " * 50_000,
    b"- " * 200_000,
    b"name: &a [*a]\n",
    b"a: &a [x,x,x,x,x,x,x,x,x]\n"
    + b"".join(b"%c: &%c [%b]\n" % (at, at, b",".join([b"*%c" % (at - 1)] * 9)) for at in range(ord("b"), ord("l"))),
    b"!!python/object/apply:os.system ['touch /tmp/owned']",
    b"name: !!python/name:os.system\n",
    b"name: " + b"9" * 100_000,
    b"%YAML 9.9\n---\nname: x",
    b"? " * 50_000,
    b"name: train\x00\n",
    job_file().encode().replace(b"instances: 1", b"instances: 1e308"),
    job_file().encode().replace(b"instances: 1", b"instances: 0x" + b"f" * 5000),
    job_file("../../etc/passwd").encode(),
    job_file("a\\r\\nX-Evil: 1").encode(),
)
LINES_OF_A_REQUEST: Final = 10_000
SECRET: Final = "nobody may read this"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    generous = Rate(1e6, 1_000_000)
    limits = dict.fromkeys(("", "_of_address", "_of_user"), 1_000_000)
    settings = {f"login_failures_per_min{of}": count for of, count in limits.items()}
    async with open_world(tmp_path, requests=generous, lists=generous, **settings) as world:
        (tmp_path / "shared").mkdir()
        (tmp_path / "shared" / "known.txt").write_text("known")
        (tmp_path / "secret").write_text(SECRET)
        output = {"name": "data", "type": "local", "data": {"path": str(tmp_path / "shared")}}
        await world.api.state.context.services.storages.add(output)
        await world.api.state.context.services.storages.grant("data", "default", is_default=False)
        yield world


def operations(world: World) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield method, path and description of every operation."""
    for path, methods in world.api.openapi()["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def filled(path: str, /, **values: str) -> str:
    """Return a path with its parts filled in: with what there is, unless another value is given."""

    def value(found: re.Match[str]) -> str:
        name = found[1]
        return values.get(name) or NAMES.get(name) or ("0" if name in NUMBERS else "data")

    return re.sub(r"\{(\w+)\}", value, path)


def check_survived(answer: httpx.Response, what: str) -> None:
    """Fail for an answer that is a fault of the server, or that lets the input out of its place."""
    message = (
        f"{answer.request.method} {str(answer.request.url)[:200]}: {what}: {answer.status_code} {answer.text[:200]}"
    )
    assert answer.status_code < 500 or answer.json()["code"] == "UnavailableError", message
    assert "x-evil" not in answer.headers, message
    assert "set-cookie" not in answer.headers, message
    assert not any("\r" in value or "\n" in value for value in answer.headers.values()), message
    assert SECRET not in answer.text, message


async def test_no_body_breaks_any_route(world: World) -> None:
    headers = await world.login("root")
    tried = 0
    for method, path, operation in operations(world):
        if "application/json" not in operation.get("requestBody", {}).get("content", {}):
            continue
        for what, body in BODIES.items():
            answer = await world.http.request(method, filled(path), content=body, headers=headers)
            check_survived(answer, what)
            is_optional = not operation["requestBody"]["required"] and not body
            assert is_optional or answer.status_code in (400, 403, 404, 413), (path, what, answer.text)
            tried += 1
    assert tried >= 30 * len(BODIES)


async def test_no_job_file_breaks_or_delays_the_server(world: World) -> None:
    # The first request also pays for what is made once.
    await world.ask("POST", "/jobs", content=b"")
    for file in JOB_FILES:
        with counted_lines() as lines:
            answer = await world.ask("POST", "/jobs", content=file)
        check_survived(answer, "job file")
        assert (answer.status_code, answer.json()["code"]) == (400, "InvalidProtocolError"), file[:100]
        assert len(answer.content) < 100_000
        assert lines.count < LINES_OF_A_REQUEST + len(file), file[:100]


async def test_no_filter_is_a_way_into_the_database(world: World) -> None:
    await world.submit("train")
    headers = await world.login("root")
    tried = 0
    for method, path, operation in operations(world):
        for parameter in operation.get("parameters", ()):
            if method != "GET" or parameter["in"] != "query":
                continue
            for words in SQL:
                address = f"{filled(path)}?{parameter['name']}={quote(words)}"
                if "/oidc/" not in path:
                    check_survived(await world.http.get(address, headers=headers), "SQL")
                    tried += 1
    assert tried > 40 * len(SQL)
    for name in ("username", "vc", "state", "keyword", "tagsContain", "jobPriority"):
        for words in SQL:
            assert await world.get("/jobs", "root", **{name: words}) == [], (name, words)
    for wildcard in ("%", "_____", "tr%n", "tra_n", "*"):
        assert await world.get("/jobs", "root", keyword=wildcard) == []
    assert [job["name"] for job in await world.get("/jobs", "root")] == ["train"]
    assert len(await world.get("/users", "root")) == 3


async def test_no_path_leads_out_of_its_place(world: World) -> None:
    await world.submit("train")
    headers = await world.login("root")
    for method, path, operation in operations(world):
        names = re.findall(r"\{(\w+)\}", path)
        for name in names:
            if name in NUMBERS:
                continue
            for part in PATHS:
                address = filled(path, **{name: part})
                body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
                answer = await world.http.request(method, address, json=body, headers=headers)
                check_survived(answer, name)
                assert "root:" not in answer.text


@pytest.mark.parametrize("number", ["-1", "99999999999999999999", "0x10", "1e3", "%00", "1%2f2", "½", "true"])
async def test_a_number_in_a_path_is_a_small_number(world: World, number: str) -> None:
    await world.submit("train")
    for path in ("/jobs/train/attempts/{}", "/jobs/train/attempts/0/taskRoles/worker/taskIndex/{}/attempts"):
        answer = await world.ask("GET", path.format(number))
        check_survived(answer, number)
        assert answer.status_code in (400, 404)


@pytest.mark.parametrize(
    "path", ["../secret", "a/../../secret", "/etc/passwd", "./../secret", "..\\secret", "a/./../../secret"]
)
async def test_no_file_outside_of_a_storage_is_read_written_or_removed(world: World, path: str, tmp_path: Path) -> None:
    place = quote(path, safe="")
    for method in ("GET", "PUT", "DELETE"):
        answer = await world.ask(method, f"/storages/data/files/{place}", "ann", content=b"overwritten")
        check_survived(answer, path)
    listed = await world.ask("GET", "/storages/data/files", "ann", params={"path": path})
    check_survived(listed, path)
    assert (tmp_path / "secret").read_text() == SECRET


async def test_no_link_in_a_storage_leads_out_of_it(world: World, tmp_path: Path) -> None:
    (tmp_path / "shared" / "file").symlink_to(tmp_path / "secret")
    (tmp_path / "shared" / "folder").symlink_to(tmp_path)
    for path in ("file", "folder/secret", "folder/shared/../secret"):
        answer = await world.ask("GET", f"/storages/data/files/{path}")
        check_survived(answer, path)
        assert answer.status_code in (400, 403, 404)
        await world.ask("PUT", f"/storages/data/files/{path}", content=b"overwritten")
    assert (tmp_path / "secret").read_text() == SECRET


@pytest.mark.parametrize("name", ['a"; filename="evil.sh', "a;b=c.txt", "a'b.txt", "größe.txt", "a%0d%0ab", "a b.txt"])
async def test_the_name_of_a_file_stays_within_its_header(world: World, name: str) -> None:
    place = f"/storages/data/files/{quote(name, safe='')}"
    assert (await world.ask("PUT", place, content=b"x")).status_code == 201
    answer = await world.ask("GET", place)
    check_survived(answer, name)
    assert answer.headers["content-disposition"] == f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    assert answer.headers["content-type"] == "application/octet-stream"


@pytest.mark.parametrize("name", ["a%0d%0aX-Evil:%201", "a%0aX-Evil:1", "%0d%0a%0d%0a<script>"])
async def test_what_comes_back_in_a_header_cannot_begin_another(world: World, name: str) -> None:
    for user in ("one", "two"):
        await world.submit(user)
    answer = await world.ask("GET", f"/jobs?limit=1&state=WAITING&x={name}")
    check_survived(answer, name)
    assert answer.headers["link"].isprintable()
    upload = await world.ask("PUT", f"/storages/data/files/{name}", content=b"x")
    check_survived(upload, name)
    for key in ("Last-Event-ID", "Range", "Idempotency-Key", "Accept"):
        check_survived(await world.ask("GET", "/jobs", headers={key: 'a\tb;c="d'}), key)


async def test_thousands_of_parameters_and_the_same_one_twice(world: World) -> None:
    await world.submit("train")
    many = "&".join(f"{number:x}" for number in range(10_000))
    same, same_of_a_list = "jobs?" + "username=ann&" * 4_000, "audit?" + "actor=ann&" * 5_000
    for query in (f"jobs?{many}", f"jobs?keyword={'a' * 60_000}", same, same_of_a_list):
        with counted_lines(starlette, fastapi) as lines:
            check_survived(await world.ask("GET", f"/{query}"), query[:30])
        assert lines.count < LINES_OF_A_REQUEST + 5 * len(query)
    twice = await world.ask("GET", "/jobs?username=bob&username=ann")
    assert [job["name"] for job in twice.json()] == ["train"], "the last one counts"
    assert (await world.ask("GET", "/jobs?limit=1&limit=9999999")).status_code == 400
    flood = b"&".join(b"f%d=1" % number for number in range(10_000))
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert (await world.http.post("/api/v2/authn/basic/login", content=flood, headers=kind)).status_code == 400


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="username"\r\n\r\nann\r\n--x--',
        ),
        ("application/xml", b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'),
        ("text/yaml", b"username: ann\npassword: correct horse\n"),
        ("application/x-www-form-urlencoded", b"\xff=\xfe&username=ann"),
        ("application/json; charset=utf-7", b"+AHsAIgB1-"),
        ("\x7f;;;=", b"username"),
    ],
)
async def test_a_body_of_another_kind_is_a_bad_request(world: World, kind: str, body: bytes) -> None:
    answer = await world.http.post("/api/v2/authn/basic/login", content=body, headers={"Content-Type": kind})
    check_survived(answer, kind)
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidParametersError")


async def test_a_body_that_comes_slowly_delays_no_other_request(world: World) -> None:
    headers = await world.login("ann")
    answered = 0

    async def slowly() -> AsyncIterator[bytes]:
        nonlocal answered
        for letter in job_file().encode()[:100]:
            # Between any two bytes other clients are served.
            assert (await world.http.get("/api/v2/info")).status_code == 200
            answered += 1
            yield bytes([letter])

    status, document = await raw(world, "POST", "/api/v2/jobs", headers, slowly())
    assert (status, document["code"], answered) == (400, "InvalidProtocolError", 100)


async def test_a_client_that_leaves_in_the_middle_of_a_body_leaves_nothing(world: World) -> None:
    headers = await world.login("ann")
    messages = [{"type": "http.request", "body": job_file().encode(), "more_body": True}, {"type": "http.disconnect"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await world.api(scope_of("POST", "/api/v2/jobs", headers), receive, send)
    assert sent == []
    assert await world.get("/jobs") == []


@pytest.mark.parametrize("header", ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"])
async def test_a_method_is_the_one_that_was_sent(world: World, header: str) -> None:
    await world.submit("train")
    for method in ("GET", "POST"):
        for path in ("/users/bob", "/users/bob?_method=DELETE"):
            answer = await world.ask(method, path, "root", headers={header: "DELETE"}, data={"_method": "DELETE"})
            check_survived(answer, header)
    assert [user["username"] for user in await world.get("/users", "root")] == ["ann", "bob", "root"]
