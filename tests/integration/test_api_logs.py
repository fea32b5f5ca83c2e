"""Logs over HTTP: where they are, and the text."""

from __future__ import annotations

from pathlib import Path

import pytest

from openpai.lifecycle.model import AttemptKey
from openpai.logs.capping import cap_logs

from .api_world import World
from .log_readers import TASK, addresses, running, serving


async def test_locations_name_every_log(world: World) -> None:
    await running(world)
    found = await world.get(TASK)
    assert [place["name"] for place in found["locations"]] == ["stdout", "stderr", "all", "runtime"]
    assert found["locations"][0]["uri"].partition("?")[0] == f"/log-manager/pai:80/api/v2{TASK}/stdout"
    for output in ({"tail-mode": "true"}, {"tailMode": "true"}):
        tails = await world.get(TASK, **output)
        assert all(place["uri"].endswith("&tail-mode=true") for place in tails["locations"])


async def test_the_address_of_a_log_opens_by_itself(world: World) -> None:
    key = await running(world)
    world.write(key, "stdout", b"x" * 20_000)
    uris, tails = await addresses(world), await addresses(world, tailMode="true")
    # OpenPAI's gateway takes away what comes before the path; without one the server does.
    for address in (uris["stdout"], uris["stdout"].removeprefix("/log-manager/pai:80")):
        answer = await world.http.get(address)
        assert (answer.status_code, answer.content) == (200, b"x" * 20_000)
    assert len((await world.http.get(tails["stdout"])).content) == 16 * 1024


@pytest.mark.parametrize(
    ("host", "place"),
    [
        ("10.0.0.7:9186", "10.0.0.7:9186"),
        ("pai.example.org", "pai.example.org:80"),
        ("[fd00::1]:9186", "[fd00::1]:9186"),
        ("evil/..:1", "localhost:80"),
        ("a b", "localhost:80"),
    ],
)
async def test_the_address_of_a_log_names_the_server_as_the_gateway_reached_it(
    world: World, host: str, place: str
) -> None:
    world.write(await running(world), "stdout", b"here")
    headers = {**await world.login("ann"), "Host": host}
    asked = await world.http.get(f"/rest-server//api/v2{TASK}", headers=headers)
    uri = asked.json()["locations"][0]["uri"]
    assert uri.startswith(f"/log-manager/{place}/api/v2{TASK}/stdout?")
    assert (await world.http.get(uri)).text == "here"


async def test_the_address_of_a_log_opens_that_log_alone_for_two_minutes(world: World) -> None:
    key = await running(world)
    world.write(key, "stdout", b"x")
    uri = (await addresses(world))["stdout"]
    path, _, ticket = uri.partition("?")
    detail = "/api/v2/jobs/ann~train"
    for none in ("A" * 200, "", "%ff"):
        answer = await world.http.get(f"{path}?ticket={none}")
        assert (answer.status_code, answer.json()["code"]) == (401, "UnauthorizedUserError"), none
    answer = await world.http.get(f"{path[:-6]}stderr?{ticket}")
    assert (answer.status_code, answer.json()["code"]) == (403, "ForbiddenUserError")
    for elsewhere in (f"{detail}?{ticket}", f"{path.rpartition('/')[0]}?{ticket}", path):
        assert (await world.http.get(elsewhere)).status_code == 401, elsewhere
    assert (await world.http.delete(uri)).status_code == 405
    world.clock.at_ms += 119_999
    assert (await world.http.get(uri)).text == "x"
    world.clock.at_ms += 1
    assert (await world.http.get(uri)).status_code == 403


@pytest.mark.parametrize(("way", "status"), [("logged out", 401), ("demoted", 403)])
async def test_the_address_of_a_log_is_worth_no_more_than_the_login_that_asked(
    world: World, way: str, status: int
) -> None:
    key = await running(world)
    world.write(key, "stdout", b"x")
    assert (await world.ask("PUT", "/users/bob/admin", "root", json={"admin": True})).status_code == 201
    uri = (await addresses(world, "bob"))["stdout"]
    assert (await world.http.get(uri)).text == "x"
    if way == "logged out":
        assert (await world.ask("DELETE", "/authn/basic/logout", "bob")).is_success
    else:
        assert (await world.ask("PUT", "/users/bob/admin", "root", json={"admin": False})).is_success
    assert (await world.http.get(uri)).status_code == status


async def test_a_task_that_never_began_has_no_logs(world: World) -> None:
    await world.submit()
    for path in (TASK, f"{TASK}/stdout"):
        answer = await world.ask("GET", path)
        assert (answer.status_code, answer.json()["code"]) == (404, "NoTaskLogError")
        assert answer.json()["advice"] == "the task has not started in it"
    await world.grant()
    answer = await world.ask("GET", f"{TASK}/stdout")
    assert (answer.status_code, answer.json()["code"]) == (404, "NoTaskLogError")
    answer = await world.ask("GET", TASK.replace("attempts/0/logs", "attempts/1/logs"))
    assert answer.json()["advice"] == "the newest that started is 0"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (TASK.replace("attempts/0/logs", "attempts/1/logs"), "NoTaskLogError"),
        (TASK.replace("ann~train/attempts/0", "ann~train/attempts/1"), "NoJobError"),
        (TASK.replace("worker", "other"), "NoJobError"),
        (TASK.replace("taskIndex/0", "taskIndex/7"), "NoJobError"),
        (TASK.replace("train", "none"), "NoJobError"),
        (f"{TASK}/secret", "NoTaskLogError"),
        (f"{TASK}/..%2f..%2f..%2fsecret", "NoApiError"),
        (TASK.replace("worker", "..%2f.."), "NoApiError"),
        (TASK.replace("worker", "%2e%2e"), "NoJobError"),
    ],
)
async def test_what_is_not_there_is_not_found(world: World, path: str, code: str) -> None:
    world.write(await running(world), "stdout", b"x")
    answer = await world.ask("GET", path)
    assert (answer.status_code, answer.json()["code"]) == (404, code)


async def test_a_log_is_text_whole_or_in_part(world: World) -> None:
    key = await running(world)
    text = b"".join(b"line %05d\n" % number for number in range(20_000))
    world.write(key, "stdout", text)
    whole = await world.ask("GET", f"{TASK}/stdout")
    assert whole.content == text
    assert whole.headers["content-type"] == "text/plain; charset=utf-8"
    assert (whole.headers["x-log-offset"], whole.headers["x-log-size"]) == ("0", str(len(text)))
    for name in ("tail-mode", "tailMode"):
        tail = await world.ask("GET", f"{TASK}/stdout", params={name: "true"})
        assert tail.content == text[-16384:]
    part = await world.ask("GET", f"{TASK}/stdout", params={"offset": 11, "limit": 10})
    assert part.content == b"line 00001"
    last = await world.ask("GET", f"{TASK}/stdout", params={"offset": -11})
    assert (last.content, last.headers["x-log-offset"]) == (b"line 19999\n", str(len(text) - 11))
    beyond = await world.ask("GET", f"{TASK}/stdout", params={"offset": 10**9})
    assert (beyond.status_code, beyond.content) == (200, b"")
    empty = await world.ask("GET", f"{TASK}/stderr")
    assert (empty.status_code, empty.content) == (200, b"")


async def test_all_is_both_streams(world: World) -> None:
    key = await running(world)
    world.write(key, "stdout", b"out\n")
    world.write(key, "stderr", b"err\n")
    world.write(key, "runtime", b"run\n")
    assert (await world.ask("GET", f"{TASK}/all")).text == "out\nerr\n"
    assert (await world.ask("GET", f"{TASK}/runtime")).text == "run\n"
    refused = await world.ask("GET", f"{TASK}/all", params={"offset": 3})
    assert (refused.status_code, refused.json()["code"]) == (400, "InvalidParametersError")


async def test_the_last_lines_of_all_are_those_of_both_streams(world: World) -> None:
    key = await running(world)
    world.write(key, "stdout", b"1\n2\n3\n")
    world.write(key, "stderr", b"4\n5\n")
    for lines, text in ((0, ""), (1, "5\n"), (3, "3\n4\n5\n"), (9, "1\n2\n3\n4\n5\n")):
        assert (await world.ask("GET", f"{TASK}/all", params={"tail-lines": lines})).text == text
    refused = await world.ask("GET", f"{TASK}/all", params={"tail-lines": 1, "follow": True})
    assert (refused.status_code, refused.json()["code"]) == (400, "InvalidParametersError")


def where_logs_are(root: Path) -> str:
    (file,) = root.rglob("stdout.log")
    return str(file.parent)


async def test_a_log_without_its_middle_says_so(world: World, tmp_path: Path) -> None:
    key = await running(world)
    text = b"".join(b"%09d\n" % number for number in range(400_000))
    world.write(key, "stdout", text)
    cap_logs(where_logs_are(tmp_path), 1 << 20)
    whole = await world.ask("GET", f"{TASK}/stdout")
    first, message, rest = whole.content.partition(b"\n[openpai-runtime] ")
    message, _, rest = rest.partition(b"\n")
    count = int(message.split()[0].replace(b",", b""))
    assert text.startswith(first)
    assert text.endswith(rest)
    assert len(first) + count + len(rest) == len(text)
    assert whole.headers["x-log-end"] == str(len(text))
    inside = await world.ask("GET", f"{TASK}/stdout", params={"offset": len(first) + 10, "limit": count})
    message, _, behind = inside.content.removeprefix(b"\n").partition(b"\n")
    assert behind == text[len(first) + count : len(first) + 10 + count]
    assert inside.headers["x-log-end"] == str(len(first) + 10 + count)


async def test_logs_of_every_attempt_stay_readable(world: World) -> None:
    key = await running(world)
    world.write(key, "stdout", b"first")
    await world.exited(key, 1)
    await world.commands.start("ann", "train", "ann")
    await world.grant()
    second = AttemptKey(key.job, 1, "worker", 0, 0)
    await world.started(second)
    world.write(second, "stdout", b"second")
    assert (await world.ask("GET", f"{TASK}/stdout")).text == "first"
    assert (await world.ask("GET", f"{TASK.replace('train/attempts/0', 'train/attempts/1')}/stdout")).text == "second"


async def test_a_body_that_is_far_too_large_is_refused_by_the_real_server(world: World) -> None:
    async with serving(world) as http:
        answer = await http.post("/jobs", content=b"x" * (10 * 1024 * 1024))
        assert (answer.status_code, answer.json()["code"]) == (413, "RequestTooLargeError")
        assert (await http.get("/users/me")).status_code == 200


async def test_lines_have_the_times_at_which_they_were_seen(world: World) -> None:
    key = await running(world)
    world.write(key, "stdout", b"one\ntwo\n")
    text = (await world.ask("GET", f"{TASK}/stdout", params={"timestamps": "true"})).text
    assert [line.partition("Z ")[2] for line in text.splitlines()] == ["one", "two"]
    assert (await world.ask("GET", f"{TASK}/all", params={"since": "0"})).text == "one\ntwo\n"
    for wrong in ({"follow": "true"}, {"offset": "3"}, {"tail-lines": "1"}):
        answer = await world.ask("GET", f"{TASK}/stdout", params={"since": "5", **wrong})
        assert answer.status_code == 400, wrong


async def test_a_log_is_searched(world: World) -> None:
    key = await running(world)
    world.write(key, "stdout", b"epoch 1\n\x1b[31mERROR\x1b[0m one\nepoch 2\n")
    world.write(key, "stderr", b"error two\n" * 3)
    first = await world.get(f"{TASK}/all/search", text="error", **{"ignore-case": "true", "limit": "2"})
    assert [(hit["stream"], hit["offset"], hit["text"]) for hit in first["hits"]] == [
        ("stdout", 8, "ERROR one"), ("stderr", 0, "error two"),
    ]  # fmt: skip
    assert first["hits"][0]["time"] > 0
    rest = await world.get(f"{TASK}/all/search", text="error", next=first["next"], **{"ignore-case": "true"})
    assert ([hit["offset"] for hit in rest["hits"]], rest["next"]) == ([10, 20], None)
    found = await world.get(f"{TASK}/stdout/search", text=r"^epoch \d$", regex="true")
    assert [hit["text"] for hit in found["hits"]] == ["epoch 1", "epoch 2"]
    assert (await world.get(f"{TASK}/runtime/search", text="x")) == {"hits": [], "next": None}


@pytest.mark.parametrize(
    ("path", "params", "code"),
    [
        ("stdout", {"text": "(", "regex": "true"}, "InvalidParametersError"),
        ("stdout", {"text": ""}, "InvalidParametersError"),
        ("stdout", {}, "InvalidParametersError"),
        ("stdout", {"text": "x", "next": "stderr=0"}, "InvalidParametersError"),
        ("stdout", {"text": "x", "next": "../x"}, "InvalidParametersError"),
        ("secret", {"text": "x"}, "NoTaskLogError"),
    ],
)
async def test_a_search_that_cannot_be_is_refused(world: World, path: str, params: dict[str, str], code: str) -> None:
    await running(world)
    answer = await world.ask("GET", f"{TASK}/{path}/search", params=params)
    assert answer.json()["code"] == code


async def test_a_log_as_a_terminal_shows_it_and_as_a_file(world: World) -> None:
    key = await running(world)
    world.write(key, "stdout", b"".join(b"\r%3d%%" % number for number in range(101)) + b"\n\x1b]52;c;eA==\x07\xff")
    answer = await world.ask("GET", f"{TASK}/stdout", params={"plain": "true", "download": "true"})
    assert answer.text == "100%\n\\x1b]52;c;eA==\\x07\ufffd"
    assert answer.headers["content-disposition"] == 'attachment; filename="worker-0-stdout.log"'
    answer = await world.ask("GET", f"{TASK}/all", params={"plain": "true", "timestamps": "true"})
    assert [line[25:] for line in answer.text.splitlines()] == ["100%", "\\x1b]52;c;eA==\\x07\ufffd"]
