"""Cloning: a job's file read back and submitted again, its secrets behind the masks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .api_world import PASSWORD, World, open_world

FILE = """
protocolVersion: 2
name: first
type: job
prerequisites:
  - {type: dockerimage, name: image, uri: python, auth: {username: me, password: registry-word}}
secrets: {word: opensesame, other: x}
taskRoles:
  worker:
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}
    commands: ["echo <% $secrets.word %>"]
"""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as world:
        assert (await world.ask("POST", "/jobs", content=FILE.encode())).status_code == 202
        yield world


async def masked(world: World, name: str = "second") -> str:
    text = (await world.ask("GET", "/jobs/first/config")).text
    assert "opensesame" not in text
    assert "registry-word" not in text
    return text.replace("name: first", f"name: {name}")


async def hidden_in(world: World, name: str) -> object:
    record = await world.store.load(await world.commands._find("ann", name))
    assert record is not None
    return world.commands._secrets.open(record.sealed)


@pytest.mark.parametrize("origin", ["first", "ann~first", "id"])
async def test_a_clone_has_the_secrets_of_its_origin(world: World, origin: str) -> None:
    if origin == "id":
        origin = (await world.get("/jobs/first"))["debugId"]
    promise, key = ("POST", f"/jobs?cloneOf={origin}"), {"Idempotency-Key": "a-clone"}
    answer = await world.ask(*promise, content=(text := (await masked(world)).encode()), headers=key)
    assert answer.status_code == 202, answer.text
    assert (await world.ask(*promise, content=text, headers=key)).json()["id"] == answer.json()["id"]
    assert "opensesame" not in answer.text
    assert await hidden_in(world, "second") == await hidden_in(world, "first")
    assert "opensesame" not in (await world.ask("GET", "/jobs/second/config")).text


async def test_secrets_may_be_changed_on_the_way(world: World) -> None:
    text = (await masked(world)).replace("\n  word: '******'", "\n  word: changed")
    assert "changed" in text
    assert (await world.ask("POST", "/jobs?cloneOf=first", content=text.encode())).status_code == 202
    hidden = await hidden_in(world, "second")
    assert isinstance(hidden, dict)
    assert hidden["secrets"] == {"word": "changed", "other": "x"}


async def test_secrets_of_another_users_job_are_not_cloned(world: World) -> None:
    text = (await masked(world)).encode()
    for who in ("bob", "root"):
        for origin in ("first", "ann~first", (await world.get("/jobs/first"))["debugId"]):
            answer = await world.ask("POST", f"/jobs?cloneOf={origin}", who, content=text)
            assert (answer.status_code, answer.json()["code"]) == (404, "NoJobError"), origin


async def test_a_new_user_of_an_old_name_gets_nothing_of_the_former(world: World) -> None:
    key = {"Idempotency-Key": "a-key-of-ann"}
    old = (await world.ask("POST", "/jobs", content=FILE.replace("first", "keyed").encode(), headers=key)).json()["id"]
    text = (await masked(world)).encode()
    assert (await world.ask("DELETE", "/users/ann", "root")).is_success
    world.clock.at_ms += 1
    account = {"username": "ann", "password": PASSWORD}
    assert (await world.ask("POST", "/users", "root", json=account)).is_success
    world.tokens.pop("ann")
    for origin in ("first", "ann~first", old):
        answer = await world.ask("POST", f"/jobs?cloneOf={origin}", content=text)
        assert (answer.status_code, answer.json()["code"]) == (404, "NoJobError"), origin
    for path in ("executionType", "tag"):
        answer = await world.ask("PUT", f"/jobs/ann~first/{path}", json={"value": "STOP"})
        assert (answer.status_code, answer.json()["code"]) == (403, "ForbiddenUserError"), path
        assert "belongs to an earlier user of this name" in answer.json()["message"]
    answer = await world.ask("POST", "/jobs", content=FILE.replace("first", "mine").encode(), headers=key)
    assert answer.json()["name"] == "mine"
    # A server whose clock is behind must not take her own job for that of another user.
    world.clock.at_ms -= 1
    assert (await world.ask("POST", "/jobs", content=FILE.replace("first", "own").encode())).status_code == 202
    assert (await world.ask("PUT", "/jobs/own/tag", json={"value": "x"})).status_code == 200


async def test_masks_without_an_origin_or_of_something_else_are_refused(world: World) -> None:
    text = await masked(world)
    assert (await world.ask("POST", "/jobs", content=text.encode())).status_code == 400
    more = text.replace("  other: '******'", "  another: '******'")
    assert more != text
    answer = await world.ask("POST", "/jobs?cloneOf=first", content=more.encode())
    assert answer.status_code == 400
    assert "secrets.another" in answer.text
