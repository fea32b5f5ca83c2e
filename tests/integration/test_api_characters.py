"""No text that a database cannot keep gets to one: it is refused with its field's name.

With SQLite, which keeps a NUL: what got to PostgreSQL would be refused, too.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy as sa

from openpai.api.services import Rate
from openpai.protocol.errors import Refused
from openpai.store.database import Database

from .api_world import World, job_file, open_world
from .test_api_attacks import NUMBERS, filled, operations

UNFIT: Final = {"a NUL": ("a\x00b", "NUL"), "a lone surrogate": ("a\ud800b", "surrogate")}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    generous = Rate(1e6, 1_000_000)
    limits = dict.fromkeys(("", "_of_address", "_of_user"), 1_000_000)
    settings = {f"login_failures_per_min{of}": count for of, count in limits.items()}
    async with open_world(tmp_path, requests=generous, lists=generous, **settings) as world:
        yield world


def texts_of(schema: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return where a body may hold a text."""
    if "anyOf" in schema:
        return [found for one in schema["anyOf"] for found in texts_of(one, path)]
    if schema.get("type") == "string":
        return [path]
    if schema.get("type") == "object":
        return [found for name, part in schema.get("properties", {}).items() for found in texts_of(part, (*path, name))]
    return []


def body_with(path: tuple[str, ...], text: str) -> Any:
    for name in reversed(path):
        text = {name: text}  # type: ignore[assignment]
    return text


@pytest.mark.parametrize("what", UNFIT)
async def test_every_text_of_every_body_is_refused_by_name(world: World, what: str) -> None:
    headers = await world.login("root")
    text, named = UNFIT[what]
    tried = 0
    for method, path, operation in operations(world):
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        for place in texts_of(content["schema"]) if content else ():
            body = json.dumps(body_with(place, text)).encode()
            answer = await world.http.request(method, filled(path), content=body, headers=headers)
            # A caller without the right, or for a thing that does not exist, gets that error first.
            assert answer.status_code in (400, 403, 404), (path, place, answer.text)
            if answer.status_code == 400:
                message = answer.json()["message"]
                assert named in message, (path, place, message)
                assert ".".join(place) in message, (path, place, message)
                tried += 1
    assert tried > 40


async def test_every_part_of_every_address_is_refused(world: World) -> None:
    headers = await world.login("root")
    tried = 0
    for method, path, operation in operations(world):
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "header" or (parameter["in"] == "path" and parameter["name"] in NUMBERS):
                continue
            if parameter["in"] == "path":
                address = filled(path, **{parameter["name"]: "a%00b"})
            else:
                address = f"{filled(path)}?{parameter['name']}=a%00b"
            answer = await world.http.request(method, address, headers=headers)
            assert answer.status_code == 400, (address, answer.text)
            assert parameter["in"] == "path" or parameter["name"] in answer.json()["message"]
            tried += 1
    assert tried > 60


@pytest.mark.parametrize("where", ["name", "command", "key", "parameter"])
async def test_a_job_file_is_refused_with_the_place(world: World, where: str) -> None:
    job = job_file("train")
    extra = {
        "name": (job.replace("name: train", 'name: "tr\\0ain"'), "name"),
        "command": (job.replace('["true"]', '["echo \\0"]'), "commands"),
        "key": (job + '\nparameters: {"a\\0b": 1}\n', "parameters"),
        "parameter": (job + '\nparameters: {a: "\\0"}\n', "parameters.a"),
    }
    text, place = extra[where]
    headers = await world.login("ann")
    answer = await world.http.post("/api/v2/jobs", content=text.encode(), headers=headers)
    assert answer.status_code == 400, answer.text
    assert "NUL" in answer.text
    assert place in answer.text


@pytest.mark.parametrize("database_kind", ["postgresql"])
async def test_a_nul_that_reaches_the_database_is_no_outage(database_url: str) -> None:
    database = Database(database_url)
    insert = sa.text("INSERT INTO lease (name, epoch, until_ms) VALUES (:name, 1, 1)")
    with pytest.raises(Refused, match="NUL"):
        await database.write(lambda connection: connection.execute(insert, {"name": "a\x00b"}))
    database.close()
